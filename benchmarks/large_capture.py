"""A capture as large as a day of a large service: 200,000 distinct frames, 10 million samples, made in a minute."""

from __future__ import annotations

from pathlib import Path
from random import Random

from weft._native import RunEncoder
from weft.capture import CaptureWriter
from weft.sample import Frame, FrameKind, State

FRAMES = 200_000
SAMPLES = 10_000_000
STACKS = 300_000
THREADS = 8
LINES = 5  # of each function that are seen
DEEPEST = 60
PERIOD_NS = 1_000_000
START_NS = 1_000_000_000_000
LEVELS_UP = 400  # a stack is mostly called by one of the last so many that were made: deep trees, as programs have


def make(path: Path, samples: int = SAMPLES) -> None:
    """Write the capture. Every frame is in a stack, and of every stack there is a sample or one that it calls."""
    random = Random(20)
    meta: dict[str, str | int] = {
        "version": "0",
        "command": "benchmark",
        "host": "nowhere",
        "kernel": "",
        "collector": "ptrace",
        "pacer": "",
        "mode": "wall",
        "rate_hz": 1000,
        "start_ns": START_NS,
        "start_unix_ns": 1,
    }
    with CaptureWriter(path, meta) as writer:
        writer.add_process(1, 1000, None, ["python3", "service.py"], "CPython 3.13.0", START_NS)
        for thread in range(1, THREADS + 1):
            writer.add_thread(thread, 1, 1000 + thread, f"worker-{thread}", START_NS)
        _add_frames(writer, random)
        weights = _add_stacks(writer, random)
        writer.set_account({"samples_wanted": samples, "samples_taken": samples, "stacks_whole": samples})
        _add_runs(writer, random, weights, samples)


def _add_frames(writer: CaptureWriter, random: Random) -> None:
    words = ("handle", "parse", "encode", "load", "render", "check", "merge", "send", "read", "walk", "apply", "visit")
    for number in range(FRAMES):
        function = number // LINES
        package = function // 200
        if number % LINES == 0:
            name = f"{random.choice(words)}_{random.choice(words)}_{function}"
        first = 10 + function % 200 * 20
        file = f"/srv/app/lib/python3.13/site-packages/package_{package}/module_{function % 200 // 40}.py"
        line = first + 1 + number % LINES
        frame = Frame(FrameKind.PYTHON, name, file, line, first, line, 9, 9 + number % 40)
        writer.add_frame(number + 1, frame)
    writer.commit(START_NS)


def _add_stacks(writer: CaptureWriter, random: Random) -> list[int]:
    """Returns the stacks, those with most samples first."""
    depth = [0]
    stacks = []
    for stack in range(1, STACKS + 1):
        parent = random.randrange(max(0, stack - LEVELS_UP), stack) if random.random() < 0.97 else 0
        if depth[parent] >= DEEPEST:
            parent = 0
        depth.append(depth[parent] + 1)
        frame = stack if stack <= FRAMES else random.randrange(1, FRAMES + 1)
        stacks.append((stack, parent, frame))
    writer.add_stacks(stacks)
    writer.commit(START_NS)
    order = list(range(1, STACKS + 1))
    random.shuffle(order)
    return order


def _add_runs(writer: CaptureWriter, random: Random, order: list[int], samples: int) -> None:
    encoders = [RunEncoder() for _ in range(THREADS)]
    states = (State.RUNNING,) * 6 + (State.GIL, State.IO)
    last = [START_NS] * THREADS
    at = START_NS
    for tick in range(samples // THREADS):
        for thread, encoder in enumerate(encoders):
            number = tick * THREADS + thread
            # Each stack once, spread over the time; else a few stacks have most of the samples.
            stack = number // 30 if number % 30 == 0 and number // 30 < STACKS else int(STACKS * random.random() ** 6)
            at = START_NS + tick * PERIOD_NS + int(PERIOD_NS * (1 + 0.2 * random.random()))  # as clocks tick
            encoder.append(at, at - last[thread], 1, states[(number * 7 + stack) % 8], order[stack])
            last[thread] = at
        if tick % 1000 == 999:
            _write_runs(writer, encoders, at)
    _write_runs(writer, encoders, at)


def _write_runs(writer: CaptureWriter, encoders: list[RunEncoder], at: int) -> None:
    for thread, encoder in enumerate(encoders, 1):
        if len(encoder):
            writer.add_runs(thread, *encoder.take())
    writer.commit(at)
