"""Python's stack and the native one are of the same moment: of a program where each tells what the other must be.

What weft has to show is known from the program alone: libz's crc32 runs below `crc` alone, its adler32 below `adler`.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from interpreters import Interpreter
from privileges import ordinary
from recordings import account_of, make_tables, record, record_as, woven_stacks_of
from running import StartTarget

from weft import Collector
from weft.sample import Frame, FrameKind

RATE_HZ = 5000
SECONDS = float(os.environ.get("WEFT_MOMENT_SECONDS", "1.5"))
SAMPLES = int(RATE_HZ * SECONDS / 2)  # for which a busy machine takes longer
CALLERS = {"crc32": "crc", "adler32": "adler"}


def checksum_of(frame: Frame) -> str | None:
    """The checksum of libz that a native frame belongs to: `crc32`, as `crc32` and `crc32_z` do."""
    if frame.kind is FrameKind.PYTHON or "libz" not in frame.module:
        return None
    return next((name for name in CALLERS if frame.function.startswith(name)), None)


def assert_one_moment(capture: Path) -> None:
    """No stack has a checksum of libz without the function that calls it, but those marked as from before Python was
    found: some first ones."""
    samples: Counter[bool] = Counter()
    wrong = []
    early = 0
    for sampled in woven_stacks_of(capture):
        if sampled.frames[0].function == "[truncated: runtime-not-found]":
            assert not any(frame.kind is FrameKind.PYTHON for frame in sampled.frames)
            early += sampled.ticks
            continue
        checksums = {name for frame in sampled.frames if (name := checksum_of(frame))}
        if checksums:
            functions = {frame.function for frame in sampled.frames if frame.kind is FrameKind.PYTHON}
            right = {CALLERS[name] for name in checksums} == functions & set(CALLERS.values())
            samples[right] += sampled.ticks
            wrong += [] if right else [sampled.frames]
    assert not wrong, f"{samples[False]} of {samples.total()}: {wrong[0]}"
    assert samples[True] > 0.3 * account_of(capture)["samples_taken"]
    assert early < 0.01 * samples.total()
    print(f"{samples.total():,} samples in libz, all below their callers")


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
def test_of_one_moment(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN two checksums in turn WHEN they are recorded THEN each is below the function that calls it."""
    target = start_target(interpreter, "checksums.py", 200)
    make_tables(target.pid)
    capture = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES, collector=collector)
    assert_one_moment(capture)


@pytest.mark.serial
@pytest.mark.usefixtures("paranoid")
def test_of_one_moment_to_an_ordinary_user(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN the same WHEN an ordinary user records it THEN each is, though his readers may have to wait."""
    command = [*ordinary(interpreter.chroot or Path("/")), interpreter.command[-1]]
    target = start_target(replace(interpreter, command=command), "checksums.py", 200)
    assert_one_moment(record_as(ordinary(), target.pid, tmp_path, rate_hz=RATE_HZ, samples=SAMPLES))
