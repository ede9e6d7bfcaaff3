"""Stacks of a program whose greenlets switch to each other all the time."""

from __future__ import annotations

from itertools import dropwhile
from pathlib import Path

from interpreters import Interpreter
from recordings import Sampled, record, woven_stacks_of
from running import StartTarget
from test_woven import RATE_HZ, SECONDS
from woven_calls import has_doubt, has_gap, share, wrong_calls

from weft.sample import Frame, FrameKind


def of_its_greenlet(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """From the outermost Python frame on. What lies below it on the C stack is another greenlet's, or was."""
    return tuple(dropwhile(lambda frame: frame.kind is not FrameKind.PYTHON, frames))


def is_switching(sampled: Sampled) -> bool:
    """Whether C stacks are just being copied, or links between frames restored, one by one (docs/weaving.md)."""
    return any("g_switchstack" in frame.function for frame in sampled.frames)


def is_proven(sampled: Sampled) -> bool:
    """Whether nothing is missing of the greenlet, and each seam is proven."""
    return not has_gap(of_its_greenlet(sampled.frames)) and not has_doubt(sampled.frames)


def test_switching(interpreter: Interpreter, packages: Path, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN eight greenlets that switch by chance THEN the Python frames of a sample are one greenlet's; and where all
    is said to be proven, unless it is just switching, each lies behind the native frames that called it."""
    target = start_target(interpreter, "greenlets.py", 60, interpreter.inside(packages))
    stacks = woven_stacks_of(record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS))
    mixed, wrong = [], []
    for sampled in stacks:
        python = [frame for frame in sampled.frames if frame.kind is FrameKind.PYTHON]
        if len({frame.file for frame in python if frame.file.startswith("greenlet_")}) > 1:
            mixed.append([(frame.function, frame.file) for frame in python])
        if is_proven(sampled) and not is_switching(sampled) and not interpreter.stripped:
            wrong += wrong_calls(of_its_greenlet(sampled.frames))
    print(f"{interpreter.name}: {sum(s.ticks for s in stacks)} samples, {share(stacks, is_proven):.4%} all proven")
    assert not mixed, mixed[:3]
    assert not wrong, wrong[:3]
    assert share(stacks, is_proven) > 0.9
