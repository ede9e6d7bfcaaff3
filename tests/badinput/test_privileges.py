"""Who may record whom, and how well: root, an ordinary user, and a container that forbids half of the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from privileges import NOBODY, PERF_EVENT_OPEN, PTRACE, filtered, ordinary
from weft_command import assert_one_line, record_until, run_weft

from weft import Capture

BUSY = "import time\nprint('ready', flush=True)\nend = time.time() + 100\nwhile time.time() < end: sum(range(1000))"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A busy Python process, run by the command that the test's parameter gives."""
    with subprocess.Popen([*request.param, sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it is that command's, and runs Python
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
    run = run_weft("record", "-p", target.pid, "-d", 1, "-o", tmp_path / "x.weft", prefix=ordinary())
    assert "run weft as root (sudo)" in assert_one_line(run)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", [NOBODY], indirect=True, ids=["nobody's"])
def test_another_user(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN a process of another user THEN an ordinary one may not record it, and root may."""
    output = tmp_path / "x.weft"
    run = run_weft("record", "-p", target.pid, "-d", 1, "-o", output, prefix=ordinary())
    assert "it runs as another user" in assert_one_line(run)
    run = record_until(10, target.pid, output, "-r", "200")
    assert run.returncode == 0, run.stderr
    recorded(output)


@pytest.mark.serial
@pytest.mark.usefixtures("paranoid")
@pytest.mark.parametrize("target", [ordinary()], indirect=True, ids=["ours"])
def test_an_ordinary_user_records_his_own(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN no privilege at all THEN threads are paced by their own CPU clocks, without the kernel's side of them."""
    output = tmp_path / "x.weft"
    run = record_until(10, target.pid, output, "-r", "200", prefix=ordinary())
    assert run.returncode == 0, run.stderr
    account = recorded(output)
    assert account["cpu_clocks"] > 0
    assert account["cpu_clocks_refused"] == 0


def test_an_ordinary_user_launches_a_command(tmp_path: Path) -> None:
    output = tmp_path / "x.weft"
    code = "import time\nwhile time.process_time() < 0.5: sum(range(1000))\nprint('done')"
    run = run_weft("record", "-r", "200", "-o", output, "--", sys.executable, "-c", code, prefix=ordinary())
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    recorded(output)


@pytest.mark.parametrize("target", [[]], indirect=True, ids=["root's"])
def test_no_perf_events(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN a filter that refuses perf_event_open, as containers have THEN the wall clock paces, and that is told.

    The same happens with perf_event_paranoid at 3 or 4 on the kernels of Debian and Ubuntu.
    """
    output = tmp_path / "x.weft"
    prefix = filtered(PERF_EVENT_OPEN)
    run = record_until(10, target.pid, output, "--collector", "ptrace", "-r", "200", prefix=prefix)
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
    run = run_weft(
        "record", "--collector", "ptrace", "-p", target.pid, "-d", 1, "-o", tmp_path / "x.weft", prefix=prefix
    )
    assert "does not let weft stop process" in assert_one_line(run)
    run = run_weft("record", "-o", tmp_path / "x.weft", "--", "touch", mark, prefix=prefix)
    assert "does not let weft stop process" in assert_one_line(run)
    assert not mark.exists(), "it was not run where it could not be recorded"
