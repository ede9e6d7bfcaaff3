"""Programs that are easily disturbed, recorded all their life at a high rate, must do what they do alone."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from interpreters import Interpreter, all_interpreters
from recordings import account_of, record, stacks_of
from running import StartTarget, Target

from weft import Collector

by_both = pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
SECONDS = 2
RATE_HZ = 5000


def last_line_of(target: Target, tmp_path: Path, **options: Any) -> dict[str, Any]:
    """What the target says at its end, after it was recorded to its end."""
    told: dict[str, Any] = {}
    reader = threading.Thread(target=lambda: told.update(target.next_line()))
    reader.start()
    record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=10 * SECONDS, **options)
    reader.join()
    assert target.process.wait() == 0, target.errors()
    return told


@by_both
def test_signals(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector) -> None:
    """GIVEN a 1 kHz timer, SIGSTOP and SIGCONT, children that end, and counted signals that wait for their answers.

    A stop of ours that swallowed, repeated or delayed a signal for good would show in its counts, or hang it.
    """
    target = start_target(interpreter, "signals.py", SECONDS)
    told = last_line_of(target, tmp_path, collector=collector)
    assert told["usr1"] == told["usr1_sent"] > 0
    assert told["children"] == told["started"] > 0
    assert told["continued"] > 0
    assert told["checksum_ok"]


@by_both
def test_churn(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector) -> None:
    """GIVEN threads that end while they are being stopped and read, and libraries that come and go."""
    target = start_target(interpreter, "churn.py", 2 * SECONDS)  # on a busy machine weft takes SECONDS to begin
    told = last_line_of(target, tmp_path, collector=collector)
    assert told["threads"] > 0
    assert told["loads"] > 0
    assert account_of(tmp_path / f"{target.pid}.weft")["samples_taken"] > 0


@pytest.mark.serial
@by_both
def test_children(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector) -> None:
    """GIVEN children by fork, exec, vfork, posix_spawn, a shell and multiprocessing WHEN all are followed.

    THEN all end well, and those that compute in Python are seen in the function that is theirs.
    """
    target = start_target(interpreter, "children.py", SECONDS)
    told = last_line_of(target, tmp_path, collector=collector, subprocesses=True)
    assert told["failed"] == []
    seen = {frame.function for sampled in stacks_of(tmp_path / f"{target.pid}.weft") for frame in sampled.frames}
    assert {"busy_fork", "busy_exec", "busy_grandchild", "busy_subprocess", "busy_multiprocessing"} <= seen


def test_signal_mask_of_the_caller(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a program that records by the API WHEN it goes on and starts children THEN they get their SIGCHLD.

    A blocked signal is inherited: a shell that waits for its jobs then hangs for good.
    """
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        target = start_target(all_interpreters()[0], "threads.py", 3)
        record(target.pid, tmp_path, rate_hz=100, seconds=0.2)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
