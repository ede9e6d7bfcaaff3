"""Woven stacks beside what CPython's own perf support says: it puts a trampoline for each Python frame on the C stack.

The names of the trampolines are in a perf map that CPython writes. So the native stack alone tells which Python frames
there are, and between which native ones each of them belongs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from recordings import account_of, losses_of, make_tables, record, woven_stacks_of
from running import StartTarget
from weft_command import LIMIT_S

from weft import Collector
from weft.sample import Frame, FrameFlag, FrameKind

RATE_HZ = 2000
SECONDS = float(os.environ.get("WEFT_WOVEN_SECONDS", "2"))
PERF = "PYTHONPERFSUPPORT"  # -X perf, from 3.12 on: a map of names
PERF_JIT = "PYTHON_PERF_JIT_SUPPORT"  # -X perf_jit, from 3.13 on: a jitdump
SUPPORTS = [
    pytest.param(interpreter, support, id=f"{interpreter.name}-{support}")
    for interpreter in all_interpreters()
    for support, since in ((PERF, (3, 12)), (PERF_JIT, (3, 13)))
    if interpreter.minor >= since
]


def name_of_pad(frame: Frame) -> str:
    """What CPython calls the trampoline of a Python frame."""
    return f"py::{frame.function}:{frame.file}"


def pads_and_frames(frames: tuple[Frame, ...]) -> Iterator[Frame]:
    """Trampolines and the Python frames that have one. 3.13 runs an __init__ in its caller's activation even so."""
    for caller, frame in pairwise((None, *frames)):
        if frame.function.startswith("py::"):
            yield frame
        elif frame.kind is FrameKind.PYTHON:
            within = caller is not None and caller.kind is FrameKind.PYTHON
            if not (within and frame.function == "Made.__init__"):
                yield frame


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
@pytest.mark.parametrize(("python", "support"), SUPPORTS)
def test_trampolines(
    python: Interpreter, support: str, collector: Collector, start_traced: StartTarget, tmp_path: Path
) -> None:
    """GIVEN a trampoline for each Python frame, nested by chance through C THEN each Python frame is woven in where its
    trampoline is, and there is none without."""
    # CPython does not flush the last names of a jitdump before it ends: that is recorded to its end.
    runs, seconds, samples = (200, SECONDS, 500) if support == PERF else (SECONDS + 2, LIMIT_S, 0)
    target = start_traced(python, "trampolines.py", runs, env={support: "1"})
    make_tables(target.pid)
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=seconds, samples=samples, collector=collector)
    compared = frames = ending = inlined = guessed = 0
    ways: Counter[str] = Counter()
    for sampled in woven_stacks_of(path):
        if any(frame.kind is FrameKind.MARKER for frame in sampled.frames):
            continue  # counted below
        shown = list(pads_and_frames(sampled.frames))
        inlined += sum(frame.kind is FrameKind.PYTHON for frame in sampled.frames) - sum(
            frame.kind is FrameKind.PYTHON for frame in shown
        )
        # The newest one may not have linked its frame yet, or have unlinked it already.
        alone = len(shown) % 2
        ending += alone
        pairs = list(zip(shown[0 : len(shown) - alone : 2], shown[1::2], strict=True))
        assert all(pad.kind is FrameKind.NATIVE and frame.kind is FrameKind.PYTHON for pad, frame in pairs)
        assert [pad.function for pad, _ in pairs] == [name_of_pad(frame) for _, frame in pairs]
        assert not alone or shown[-1].kind is FrameKind.NATIVE
        assert all(FrameFlag.MACHINERY in pad.flags for pad, _ in pairs), "they are hidden by default"
        guessed += any(FrameFlag.FRAME_POINTER in frame.flags for frame in sampled.frames)
        compared += 1
        frames += len(pairs)
        ways.update({frame.function for _, frame in pairs})
    account = account_of(path)
    print(f"{python.name}, {support}: {compared:,} stacks and {frames:,} frames equal; {inlined} frames inlined")
    print(f"{ending} stacks begin or end an activation; {losses_of(path)}")
    print(f"{guessed} stacks with a step by the frame pointer")
    assert compared > 100
    # The code tells the step; by bpf, one in many recordings has the frame pointer (design 0006, "What is missing").
    assert guessed <= (max(2, 0.001 * compared) if collector is Collector.BPF else 0)
    assert frames > 10 * compared
    assert {"Made.__init__", "compare", "generator", "by_map.<locals>.<lambda>", "Compared.__lt__"} <= set(ways)
    assert account["native_truncated"] <= 0.02 * account["samples_taken"]  # tables are being made at first
