"""Who may record whom, and how well: root, an ordinary user, and a container that forbids half of the kernel.

An ordinary user is made by taking every capability from root (and, by the securebit noroot, the way to get them back):
to the kernel's checks that is a user like any other, and the checkout may lie where only root can read it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from weft_command import assert_one_line, run_weft

from weft import Capture

ORDINARY = ["setpriv", "--securebits", "+noroot,+noroot_locked", "--inh-caps=-all", "--bounding-set=-all"]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
BUSY = "import time\nend = time.time() + 100\nwhile time.time() < end: sum(range(1000))"

# A container's filter (seccomp(2), linux/filter.h): one system call fails with EPERM, all others are allowed.
FILTERED = """
import ctypes, os, struct, sys
refused = int(sys.argv[1])
load = struct.pack("HBBI", 0x20, 0, 0, 0)           # the number of the system call
jump = struct.pack("HBBI", 0x15, 0, 1, refused)
deny = struct.pack("HBBI", 0x06, 0, 0, 0x00050001)  # SECCOMP_RET_ERRNO | EPERM
allow = struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000)
code = ctypes.create_string_buffer(load + jump + deny + allow)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0              # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0        # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
os.execv(sys.argv[2], sys.argv[2:])
"""
PTRACE, PERF_EVENT_OPEN = 101, 298  # x86-64 (arch/x86/entry/syscalls/syscall_64.tbl)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")


def filtered(system_call: int) -> list[str]:
    """The command that runs another one behind such a filter."""
    return [sys.executable, "-c", FILTERED, str(system_call)]


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A busy Python process, run by the command that the test's parameter gives."""
    with subprocess.Popen([*request.param, sys.executable, "-c", BUSY]) as process:
        yield process
        assert process.poll() is None, "it has survived"
        process.kill()


def recorded(path: Path) -> dict[str, int]:
    """The account of a capture that a test has just made: with samples, and no damaged stack."""
    with Capture(path) as capture:
        account = capture.account()
    assert account["samples_taken"] > 4
    assert account["stacks_truncated"] == 0
    return account


@pytest.mark.parametrize("target", [[]], indirect=True, ids=["root's"])
def test_an_ordinary_user_may_not_record_root(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """THEN the line says what to do about it."""
    run = run_weft("record", "-p", target.pid, "-d", 1, "-o", tmp_path / "x.weft", prefix=ORDINARY)
    assert "run weft as root (sudo)" in assert_one_line(run)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", [NOBODY], indirect=True, ids=["nobody's"])
def test_another_user(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN a process of another user THEN an ordinary one may not record it, and root may."""
    output = tmp_path / "x.weft"
    run = run_weft("record", "-p", target.pid, "-d", 1, "-o", output, prefix=ORDINARY)
    assert "it runs as another user" in assert_one_line(run)
    run = run_weft("record", "-p", target.pid, "-d", 1, "-r", "200", "-o", output)
    assert run.returncode == 0, run.stderr
    recorded(output)


@pytest.fixture
def paranoid() -> Iterator[None]:
    """The upstream kernel's default, 2: no events of the kernel's side for ordinary users."""
    before = PARANOID.read_text()
    PARANOID.write_text("2")
    yield
    PARANOID.write_text(before)


@pytest.mark.serial
@pytest.mark.usefixtures("paranoid")
@pytest.mark.parametrize("target", [ORDINARY], indirect=True, ids=["ours"])
def test_an_ordinary_user_records_his_own(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN no privilege at all THEN threads are paced by their own CPU clocks, without the kernel's side of them."""
    output = tmp_path / "x.weft"
    run = run_weft("record", "-p", target.pid, "-d", 1, "-r", "200", "-o", output, prefix=ORDINARY)
    assert run.returncode == 0, run.stderr
    account = recorded(output)
    assert account["cpu_clocks"] > 0
    assert account["cpu_clocks_refused"] == 0


def test_an_ordinary_user_launches_a_command(tmp_path: Path) -> None:
    output = tmp_path / "x.weft"
    code = BUSY.replace("100\n", "1\n") + "\nprint('done')"
    run = run_weft("record", "-r", "200", "-o", output, "--", sys.executable, "-c", code, prefix=ORDINARY)
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    recorded(output)


@pytest.mark.parametrize("target", [[]], indirect=True, ids=["root's"])
def test_no_perf_events(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN a filter that refuses perf_event_open, as containers have THEN the wall clock paces, and that is told.

    The same happens with perf_event_paranoid at 3 or 4 on the kernels of Debian and Ubuntu.
    """
    output = tmp_path / "x.weft"
    prefix = filtered(PERF_EVENT_OPEN)
    run = run_weft("record", "-p", target.pid, "-d", 1, "-r", "200", "-o", output, prefix=prefix)
    assert run.returncode == 0, run.stderr
    account = recorded(output)
    assert account["cpu_clocks"] == 0
    assert account["cpu_clocks_refused"] > 0
    with Capture(output) as capture:
        assert capture.meta["pacer"] == "wall clock"


@pytest.mark.parametrize("target", [[]], indirect=True, ids=["root's"])
def test_no_ptrace(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN a filter that refuses ptrace, as old containers have THEN one line says so, for a process and a command."""
    prefix = filtered(PTRACE)
    mark = tmp_path / "mark"
    run = run_weft("record", "-p", target.pid, "-d", 1, "-o", tmp_path / "x.weft", prefix=prefix)
    assert "does not let weft stop process" in assert_one_line(run)
    run = run_weft("record", "-o", tmp_path / "x.weft", "--", "touch", mark, prefix=prefix)
    assert "does not let weft stop process" in assert_one_line(run)
    assert not mark.exists(), "it was not run where it could not be recorded"
