"""A launched command must not notice weft: its input and output, its terminal, its exit status, Ctrl-C."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from weft_command import LIMIT_S, WEFT, run_weft, samples_in, start_weft, wait_until

from weft import Capture

ECHO = """
import os, sys
data = sys.stdin.buffer.read()
rest = memoryview(data[::-1])
while rest:  # a write to a pipe may be short, under any tracer and after SIGCONT
    rest = rest[os.write(1, rest):]
os.write(2, b"to stderr " + bytes(range(256)))
"""


def test_pipes(tmp_path: Path) -> None:
    """GIVEN bytes of every value on stdin, stdout and stderr THEN each arrives as without weft, and no more."""
    data = os.urandom(1 << 20)
    command = [sys.executable, "-c", ECHO]
    alone = subprocess.run(command, input=data, capture_output=True, check=False)
    under = subprocess.run(
        [*WEFT, "record", "-r", "1khz", "-o", str(tmp_path / "x.weft"), "--", *command],
        input=data,
        capture_output=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert under.returncode == 0
    assert under.stdout == alone.stdout == data[::-1]
    assert under.stderr.startswith(alone.stderr)  # weft may say something after it


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(77)", 77),
        ("import os; os._exit(255)", 255),
        ("1 / 0", 1),
        ("import os; os.kill(os.getpid(), 9)", 128 + signal.SIGKILL),
        ("import os; os.kill(os.getpid(), 15)", 128 + signal.SIGTERM),
        ("import ctypes; ctypes.string_at(0)", 128 + signal.SIGSEGV),
        ("import os; os.abort()", 128 + signal.SIGABRT),
    ],
)
@pytest.mark.parametrize("options", [[], ["-s"], ["--collector", "peek"]], ids=["alone", "followed", "peek"])
def test_exit_statuses(code: str, status: int, options: list[str], tmp_path: Path) -> None:
    """THEN weft's exit status is the command's, as a shell would have it."""
    run = run_weft("record", *options, "-o", tmp_path / "x.weft", "--", sys.executable, "-c", code)
    assert run.returncode == status, run.stderr
    with Capture(tmp_path / "x.weft") as capture:
        assert not capture.meta["ended"]


TERMINAL = """
import os, signal, sys, time
about = sys.stdin.isatty(), sys.stdout.isatty(), os.tcgetpgrp(0) == os.getpgrp()
os.write(1, f"{about}\\n".encode())  # in one piece: weft tells how far it is in between
signal.signal(signal.SIGINT, lambda *_: (print("interrupted", flush=True), sys.exit(42)))
print("ready", flush=True)
end = time.time() + 100
while time.time() < end:
    sum(range(1000))
"""


def test_ctrl_c_in_a_terminal(tmp_path: Path) -> None:
    """GIVEN a terminal WHEN Ctrl-C is typed THEN the command gets it, once, and weft exits as it does."""
    output = tmp_path / "x.weft"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(WEFT[0], [*WEFT, "record", "-r", "200", "-o", str(output), "--", sys.executable, "-c", TERMINAL])
    shown = read_until(terminal, b"ready")
    assert b"(True, True, True)" in shown
    wait_until(lambda: samples_in(output) > 0, "it is recorded", 0.05)
    os.write(terminal, b"\x03")
    shown = read_until(terminal, b"")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
    os.close(terminal)
    assert shown.count(b"interrupted") == 1
    assert b"Traceback" not in shown
    with Capture(output) as capture:
        assert capture.meta["ended"] == ""
        assert capture.account()["samples_taken"] > 0


def read_until(terminal: int, mark: bytes) -> bytes:
    """What a terminal shows up to a mark, or to its end."""
    shown = b""
    while not mark or mark not in shown:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # EIO: the last process has closed it
            part = b""
        if not part:
            assert not mark, shown.decode()
            return shown
        shown += part
    return shown


def test_sigterm_is_passed_on(tmp_path: Path) -> None:
    """GIVEN weft as a service manager's child WHEN it gets SIGTERM THEN the command does, and both end in order."""
    mark = tmp_path / "ready"
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(43))\n"
        f"open({str(mark)!r}, 'w').close()\n"
        "end = time.time() + 100\n"
        "while time.time() < end: sum(range(1000))\n"
    )
    weft = start_weft("record", "-o", tmp_path / "x.weft", "--", sys.executable, "-c", code)
    wait_until(mark.exists, "the command runs")
    weft.send_signal(signal.SIGTERM)
    _, errors = weft.communicate(timeout=LIMIT_S)
    assert weft.returncode == 43, errors.decode()
    with Capture(tmp_path / "x.weft") as capture:
        assert capture.meta["ended"] == ""


def test_the_time_is_up_before_the_command_ends(tmp_path: Path) -> None:
    """THEN the command runs on to its end, untraced, and weft waits for it."""
    code = (
        "import time\n"
        "end = time.time() + 3\n"
        "while time.time() < end: sum(range(1000))\n"
        "tracer = [line for line in open('/proc/self/status') if line.startswith('TracerPid')]\n"
        "print(tracer[0].split()[1])\n"
        "raise SystemExit(9)\n"
    )
    run = run_weft("record", "-d", 0.5, "-o", tmp_path / "x.weft", "--", sys.executable, "-c", code)
    assert (run.returncode, run.stdout) == (9, "0\n"), run.stderr
    with Capture(tmp_path / "x.weft") as capture:
        assert capture.account()["recorded_ns"] < 2_500_000_000


def test_open_files_and_signals_are_the_same(tmp_path: Path) -> None:
    """THEN the command has no file of weft's, and the signals that it ignores or blocks are those that it has alone."""
    code = (
        "import os\n"
        "print(sorted(os.listdir('/proc/self/fd')))\n"
        "print([line for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn', 'SigCgt'))])\n"
    )
    command = [sys.executable, "-c", code]
    alone = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    under = run_weft("record", "-o", tmp_path / "x.weft", "--", *command)
    assert under.returncode == 0, under.stderr
    assert under.stdout == alone.stdout
