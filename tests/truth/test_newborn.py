"""Threads that have not begun: up to 3.11 their thread states still bear the name of the thread that has made them."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreters import Interpreter
from recordings import losses_of, record, woven_stacks_of
from running import CompileLibrary, StartTarget

from weft import Capture, Collector
from weft.sample import FrameKind

NEWBORN = 3  # threads
SAMPLES = 500  # of all threads, at least
LEGAL = (["main", "works"], ["main", "works", "step"])


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
def test_of_whom_they_are(
    interpreter: Interpreter,
    start_target: StartTarget,
    compile_library: CompileLibrary,
    tmp_path: Path,
    collector: Collector,
) -> None:
    """GIVEN a thread that runs on while those that it has made do not begin THEN its stacks are its own, and whole."""
    library = compile_library(interpreter, "newborn.c", "-ldl")
    target = start_target(interpreter, "newborn.py", NEWBORN, env={"LD_PRELOAD": interpreter.inside(library)})
    capture = record(target.pid, tmp_path, rate_hz=1000, seconds=1, samples=SAMPLES, collector=collector)
    assert len(list(Path(f"/proc/{target.pid}/task").iterdir())) == 1 + NEWBORN  # none has begun
    assert "unreadable" not in losses_of(capture)
    with Capture(capture) as read:
        tids = {thread.id: thread.tid for thread in read.threads()}
    ticks = 0
    for sampled in woven_stacks_of(capture):
        names = [frame.function.rsplit(".", 1)[-1] for frame in sampled.frames if frame.kind is FrameKind.PYTHON]
        if tids[sampled.thread] == target.pid:
            assert names[1:] in LEGAL, sampled.frames
            ticks += sampled.ticks
        else:
            assert not names
    assert ticks > 0.9 * SAMPLES  # those that wait are sampled, too
