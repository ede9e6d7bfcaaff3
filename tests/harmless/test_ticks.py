"""Samples must mean nothing to the program, whatever system calls it is in."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from interpreters import Interpreter, all_interpreters
from running import StartTarget, Target
from weft_command import running_weft

from weft import Collector, Mode, Options, record_process


def last_line(target: Target, path: Path, mode: Mode, rate_hz: float) -> tuple[dict[str, Any], dict[str, int]]:
    """What the target tells in its last line while it is recorded to its end, and the account of that."""
    told: dict[str, Any] = {}
    reader = threading.Thread(target=lambda: told.update(target.next_line()))
    reader.start()
    result = record_process(target.pid, path, Options(rate_hz, None, mode, Collector.PTRACE))
    reader.join()
    return told, result.account


@pytest.mark.parametrize("mode", [Mode.WALL, Mode.CPU])
def test_no_write_is_short(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, mode: Mode) -> None:
    """GIVEN a thread that writes a MB at a time to a full pipe WHEN it is recorded at 5 kHz THEN all of it is written.

    A stop in the midst of such a call ends it with what it has written so far; programs like `python -u` lose the rest.
    """
    target = start_target(interpreter, "writes.py", 2)
    told, account = last_line(target, tmp_path / "x.weft", mode, 5000)
    assert account["samples_taken"] > 1000
    assert told["writes"] > 100
    assert told["short"] == 0


def test_a_parent_that_waits(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a target that is our own child WHEN we wait for it, which takes its stops away, THEN it goes on."""
    target = start_target(all_interpreters()[-1], "writes.py", 2)
    done = threading.Event()

    def poll() -> None:
        while not done.wait(0.01):
            os.waitpid(target.pid, os.WNOHANG)

    poller = threading.Thread(target=poll)
    threading.Timer(1.5, done.set).start()
    poller.start()
    told, _ = last_line(target, tmp_path / "x.weft", Mode.CPU, 1000)
    poller.join()
    assert told["writes"] > 10


@pytest.mark.serial  # where others take its CPU, it is looked for at each tick that does not come
def test_a_busy_thread_is_left_to_its_clock(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a thread that never blocks WHEN it is recorded at 1 kHz THEN the sampler is seldom woken for it."""
    target = start_target(all_interpreters()[-1], "storm.py", 60)
    with running_weft(
        "record", "--collector", "ptrace", "-p", target.pid, "-d", 4, "-r", 1000, "-o", tmp_path / "x.weft"
    ) as weft:
        time.sleep(2)
        (sampler,) = (
            task for task in Path(f"/proc/{weft.pid}/task").iterdir() if "weft-sampler" in (task / "comm").read_text()
        )
        wakes = []
        for _ in range(2):
            # Not those of schedstat: they count the times, too, that others took its CPU.
            status = (sampler / "status").read_text()
            wakes.append(int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0]))
            time.sleep(1)
        assert weft.wait() == 0
    assert wakes[1] - wakes[0] < 300
