"""Names, files, lines and columns equal to what the interpreter says itself at a known stop, of every kind of frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interpreters import Interpreter
from recordings import record, stacks_of
from running import StartTarget, Target

from weft import Capture, Collector

by_both = pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
Stacks = dict[int, list[list[Any]]]  # by TID; frames in the form of tests/targets/walk.py


def expected(target: Target) -> Stacks:
    """What the target told of itself. A subinterpreter's stack goes on from where its thread has entered it."""
    stacks: Stacks = {}
    for told in sorted(target.ready["stacks"], key=lambda told: told["interpreter"]):
        stacks.setdefault(told["tid"], []).extend(told["frames"])
    return stacks


def shown(path: Path, told: Stacks) -> Stacks:
    """The one stack of each thread, its columns left out where the target cannot tell them: it made two calls there."""
    with Capture(path) as capture:
        tids = {thread.id: thread.tid for thread in capture.threads()}
    stacks: Stacks = {}
    for sampled in stacks_of(path):
        frames = [
            [frame.function, frame.file, frame.line, frame.end_line, frame.column, frame.end_column]
            for frame in sampled.frames
        ]
        assert stacks.setdefault(tids[sampled.thread], frames) == frames, "a thread that blocks was seen to move"
    for tid, frames in stacks.items():
        for frame, other in zip(frames, told[tid], strict=False):
            if other[3] is None:
                frame[3:] = other[3:]
    return stacks


@by_both
def test_every_kind_of_frame(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN a thread for each feature of the language that makes frames, all blocked in a read."""
    target = start_target(interpreter, "stops.py")
    told = expected(target)
    found = shown(record(target.pid, tmp_path, rate_hz=50, seconds=0.5, collector=collector), told)
    routes = {stack["tid"]: stack["route"] for stack in target.ready["stacks"]}
    assert {routes[tid]: frames for tid, frames in found.items()} == {
        routes[tid]: frames for tid, frames in told.items()
    }


@by_both
@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_deep_recursion(
    interpreter: Interpreter, depth: int, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN a stack of as many frames as the walker promises, over many chunks of the interpreter's data stack."""
    target = start_target(interpreter, "stops.py", "--only", "recursion", "--depth", depth)
    told = expected(target)
    found = shown(record(target.pid, tmp_path, rate_hz=50, seconds=0.5, collector=collector), told)
    assert {tid: len(frames) for tid, frames in found.items()} == {tid: len(frames) for tid, frames in told.items()}
    assert found == told
