"""A dozen kinds of work that get equal parts of the CPU time, in turns: kinds.py SECONDS

Whoever has had the least CPU time so far has the next turn, so that the parts are equal over every stretch of a second
or more. A turn takes 0.2 to 3 ms, drawn by chance, so that no sampler falls into step with the turns. The last line on
stdout is {"cpu_s": {kind: seconds}}, measured from inside by the thread's clock.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterator

BUFFER = b"weft" * 20_000
NUMBERS = list(range(2000))
LOOP = asyncio.new_event_loop()
TURN_S = 0.0002, 0.003


def loops(n: int) -> None:
    i = 0
    while i < 20 * n:
        i += 1


def short(x: int) -> int:
    return x


def calls(n: int) -> None:
    for x in range(10 * n):
        short(x)


def numbers(n: int) -> Iterator[int]:
    yield from range(n)


def generators(n: int) -> None:
    for _ in numbers(20 * n):
        pass


def comprehensions(n: int) -> None:
    for _ in range(n):
        [x + 1 for x in range(20)]


def c_code(n: int) -> None:
    for _ in range(n):
        sum(NUMBERS)


def c_code_without_gil(n: int) -> None:
    for _ in range(n):
        zlib.crc32(BUFFER)


def collections(n: int) -> None:
    for _ in range(n):
        cycle: list[object] = []
        cycle.append(cycle)
        gc.collect(0)


def allocations(n: int) -> None:
    for _ in range(n):
        bytearray(20_000)


def dive(depth: int) -> int:
    return depth and dive(depth - 1)


def recursion(n: int) -> None:
    for _ in range(n):
        dive(300)


def exceptions(n: int) -> None:
    for _ in range(n):
        try:
            raise ValueError  # noqa: TRY301  (which is what is measured)
        except ValueError:
            pass


def strings(n: int) -> None:
    for i in range(n):
        f"{i:>8}: {i * 0.5:.3f}".upper().split(":")


async def task() -> None:
    await asyncio.sleep(0)


async def gather(n: int) -> None:
    await asyncio.gather(*(task() for _ in range(n)))


def tasks(n: int) -> None:
    LOOP.run_until_complete(gather(n))


KINDS = (
    loops, calls, generators, comprehensions, c_code, c_code_without_gil,
    collections, allocations, recursion, exceptions, strings, tasks,
)  # fmt: skip


def speed_of(kind: Callable[[int], None]) -> float:
    """Units of its work in a second."""
    n = 1
    while True:
        before = time.thread_time()
        kind(n)
        passed = time.thread_time() - before
        if passed > TURN_S[1]:
            return n / passed
        n *= 2


def main() -> None:
    speeds = {kind: speed_of(kind) for kind in KINDS}
    used = dict.fromkeys(KINDS, 0.0)
    end = time.monotonic() + float(sys.argv[1])
    print(json.dumps({"pid": os.getpid()}), flush=True)
    while time.monotonic() < end:
        kind = min(KINDS, key=used.__getitem__)
        n = max(1, round(speeds[kind] * random.uniform(*TURN_S)))
        before = time.thread_time()
        kind(n)
        used[kind] += time.thread_time() - before
    print(json.dumps({"cpu_s": {kind.__name__: cpu_s for kind, cpu_s in used.items()}}), flush=True)


main()
