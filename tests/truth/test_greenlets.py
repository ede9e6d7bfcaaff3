"""Stacks of a program whose greenlets switch to each other all the time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from interpreters import Interpreter
from recordings import Sampled, make_tables, record, woven_stacks_of
from running import StartTarget
from test_woven import RATE_HZ, SAMPLES, SECONDS
from woven_calls import has_doubt, has_gap, is_proven, share, wrong_calls

from weft import Collector
from weft.sample import FrameKind


def is_switching(sampled: Sampled) -> bool:
    """Whether C stacks are just being copied, or links between frames restored, one by one (docs/weaving.md)."""
    return any(re.search(r"g_switchstack|StackState|slp_", frame.function) for frame in sampled.frames)


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
def test_switching(
    interpreter: Interpreter, packages: Path, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN eight greenlets that switch by chance THEN the Python frames of a sample are one greenlet's; and unless it
    is just switching, all is proven, and each lies behind the native frames that called it."""
    target = start_target(interpreter, "greenlets.py", 200, interpreter.inside(packages))
    make_tables(target.pid)
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES, collector=collector)
    stacks = woven_stacks_of(path)
    seen: set[str] = set()
    mixed, wrong = [], []
    for sampled in stacks:
        python = [frame for frame in sampled.frames if frame.kind is FrameKind.PYTHON]
        own = {frame.file for frame in python if frame.file.startswith("greenlet_")}
        seen |= own
        if len(own) > 1:
            mixed.append([(frame.function, frame.file) for frame in python])
        if is_proven(sampled) and not is_switching(sampled) and not interpreter.stripped:
            wrong += wrong_calls(sampled.frames)
    settled = [sampled for sampled in stacks if not is_switching(sampled)]
    print(
        f"{interpreter.name}: {sum(s.ticks for s in stacks):,} samples, {share(stacks, is_switching):.2%} in a switch, "
        f"of the others {share(settled, is_proven):.4%} all proven"
    )
    assert seen == {f"greenlet_{number}.py" for number in range(8)}
    assert not mixed, mixed[:3]
    assert not wrong, wrong[:3]
    assert share(settled, lambda sampled: has_doubt(sampled.frames) and not has_gap(sampled.frames)) < 0.001
    assert share(settled, is_proven) > 0.95
    assert share(stacks, is_switching) < 0.1
