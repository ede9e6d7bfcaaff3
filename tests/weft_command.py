"""The command line as a user has it: `weft` in a process of its own; and what the kernel says of a target."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft import Capture, Progress, WeftError

WEFT = [sys.executable, "-m", "weft"]
LIMIT_S = 120  # a machine under load is slow; this only ends what will never end


def start_weft(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Start weft with these arguments; its stdout and stderr are pipes unless `options` (of Popen) say otherwise."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*WEFT, *map(str, arguments)], **{**pipes, **options})


@contextmanager
def running_weft(*arguments: object, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start weft, and kill it in the end if it still runs: a test that fails must not wait for it."""
    with start_weft(*arguments, **options) as weft:
        try:
            yield weft
        finally:
            weft.kill()


def run_weft(*arguments: object, prefix: Sequence[str] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    """Run weft to its end. `prefix` is a command that runs it, such as setpriv."""
    settings = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": LIMIT_S, **options}
    return subprocess.run([*prefix, *WEFT, *map(str, arguments)], check=False, **settings)


def record_until(
    samples: int, pid: int, path: Path, *options: object, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """`weft record -p PID`, ended by Ctrl-C once it has taken so many samples: a busy machine takes longer for them."""
    command = [*prefix, *WEFT, "record", "-p", pid, *options, "-o", path]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        list(map(str, command)), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    ) as weft:
        try:
            wait_until(lambda: weft.poll() is not None or samples_in(path) >= samples, "weft takes samples", 0.05)
            weft.send_signal(signal.SIGINT)
            out, errors = weft.communicate(timeout=LIMIT_S)
        finally:
            weft.kill()
    return subprocess.CompletedProcess(weft.args, weft.returncode, out, errors)


def samples_in(path: Path) -> int:
    """How many samples a capture has, which may have only begun."""
    try:
        with Capture(path) as capture:
            return capture.account().get("samples_taken", 0)
    except WeftError:
        return 0


def until(enough: Callable[[Progress], bool]) -> Callable[[Progress], None]:
    """What record_process() is to call while it records: it ends as by Ctrl-C, once there is enough."""

    def watch(progress: Progress) -> None:
        if progress.symbols is None and enough(progress):
            signal.raise_signal(signal.SIGINT)

    return watch


def assert_one_line(run: subprocess.CompletedProcess[str], *, status: int = 1) -> str:
    """The run failed as errors must: nothing on stdout, one line on stderr. Gives the line."""
    assert run.returncode == status, run.stderr
    assert run.stdout == ""
    lines = run.stderr.splitlines()
    assert len(lines) == 1, run.stderr
    assert lines[0].startswith("weft: ")
    return lines[0]


def wait_until(holds: Callable[[], bool], what: str, every_s: float = 0.002) -> None:
    """Wait for something that must come about."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came about: {what}"
        time.sleep(every_s)


def task_states(pid: int) -> dict[int, tuple[str, int]]:
    """Each thread's state letter and the PID of its tracer (0: none), by /proc/PID/task/TID/status."""
    states = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text(errors="replace").splitlines()
        except OSError:
            continue  # it has ended
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        states[int(task.name)] = (fields["State"][0], int(fields["TracerPid"]))
    return states


def is_let_go(pid: int) -> bool:
    """Whether no thread is traced or stopped."""
    return all(state not in "tT" and tracer == 0 for state, tracer in task_states(pid).values())


def is_traced(pid: int) -> bool:
    """Whether some thread has a tracer."""
    return any(tracer for _, tracer in task_states(pid).values())


def wait_until_traced(pid: int, weft: subprocess.Popen[bytes]) -> None:
    """Wait until weft has taken hold of a target; an error where weft ends instead."""
    wait_until(lambda: is_traced(pid) or weft.poll() is not None, "weft traces the target")
    if weft.poll() is not None:
        raise AssertionError(f"weft ended with {weft.returncode}: {weft.communicate()[1].decode()}")


def cpu_ns(pid: int) -> int:
    """The CPU time of all threads of a process, by schedstat."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total
