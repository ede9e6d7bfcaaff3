"""What weft holds while it records must not grow with the time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from running import StartTarget
from weft_command import running_weft, wait_until_traced

from weft import Capture


@pytest.fixture
def newest() -> Interpreter:
    """One version, for what has nothing to do with the version."""
    return next(one for one in reversed(all_interpreters()) if one.chroot is None)


def open_files(pid: int) -> int:
    """How many memories of processes, and lists of their mappings, it holds open."""
    links = [link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    return links.count("mem") + links.count("maps")


def memory_mb(pid: int) -> float:
    """Its resident memory."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def settled_memory_mb(pid: int) -> float:
    """The same, once it has stood still for two seconds: unwind tables of large libraries are being made at first."""
    for _ in range(8):
        before = memory_mb(pid)
        time.sleep(2)
        if memory_mb(pid) < before + 1:
            return before
    raise AssertionError("it grows and grows")


@pytest.mark.serial
def test_threads_and_libraries_that_come_and_go(newest: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN hundreds of threads a second and many libraries loaded THEN files and memory stay what they are."""
    output = tmp_path / "x.weft"
    target = start_target(newest, "churn.py", 30)
    with running_weft("record", "--collector", "ptrace", "-p", target.pid, "-r", "2khz", "-o", output) as weft:
        wait_until_traced(target.pid, weft)
        before = settled_memory_mb(weft.pid)
        time.sleep(6)
        assert weft.poll() is None
        assert open_files(weft.pid) <= 4
        assert memory_mb(weft.pid) < before + 8
        told = target.next_line()
        _, errors = weft.communicate()
        assert weft.returncode == 0, errors.decode()
    assert told["threads"] > 100
    with Capture(output) as capture:
        assert sum(1 for _ in capture.threads()) > 100
