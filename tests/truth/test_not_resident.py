"""Stacks of which a part is not resident: the kernel cannot read it, and who reads it later must know it as it was."""

from __future__ import annotations

from collections import Counter
from itertools import chain, repeat
from pathlib import Path

import pytest
from interpreters import Interpreter
from recordings import account_of, record, woven_stacks_of
from running import StartTarget

from weft import Collector
from weft.sample import Frame, FrameKind, State

DEPTH = 120


def python_names(frames: tuple[Frame, ...]) -> list[str]:
    """The functions of the program, innermost first."""
    return [frame.function.rsplit(".", 1)[-1] for frame in reversed(frames) if frame.kind is FrameKind.PYTHON]


@pytest.mark.serial  # what was taken away is read before the thread moves on, if a CPU is there for it
def test_older_frames(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a thread 120 calls deep whose older frames lie in pages that are taken away every 2 ms THEN where it rests
    its stack is whole; where it runs it is whole or marked; and no frame is told that it has not."""
    legal = ["innermost", "down", *chain.from_iterable(repeat(["<lambda>", "down"], DEPTH)), "outermost"]
    target = start_target(interpreter, "evicted.py", str(DEPTH))
    path = record(target.pid, tmp_path, rate_hz=1000, seconds=2, collector=Collector.BPF)
    whole: Counter[State] = Counter()
    seen: Counter[State] = Counter()
    for sampled in woven_stacks_of(path):
        names = python_names(sampled.frames)
        if "innermost" not in names:
            continue
        names = names[names.index("innermost") :]
        assert names == legal[: len(names)]
        seen[sampled.state] += sampled.weight_ns
        if names == legal and sampled.frames[0].kind is FrameKind.NATIVE:
            whole[sampled.state] += sampled.weight_ns
        else:
            assert any(frame.kind is FrameKind.MARKER for frame in sampled.frames)
    account = account_of(path)
    print(f"{interpreter.name}: {account['stacks_read_late']:,} read late, whole: {whole}, of {seen}")
    assert account["stacks_read_late"] > 20
    assert seen[State.SLEEPING] > 0.1e9
    # The others had moved on before they were looked at.
    assert whole[State.SLEEPING] > 0.5 * seen[State.SLEEPING]
    assert whole[State.RUNNING] > 0
