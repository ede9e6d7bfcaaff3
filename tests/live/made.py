"""A capture for the tests of the live view: everything that it shows, and always the same."""

from __future__ import annotations

from pathlib import Path

from capture.builder import SECOND, START_NS, CaptureBuilder, frame

from weft.sample import KERNEL, Frame, FrameFlag, FrameKind, State

MS = 1_000_000


def native(function: str, file: str = "/srv/fast.c", line: int = 7, flags: int = 0) -> Frame:
    return Frame(FrameKind.NATIVE, function, file, line, flags=FrameFlag(flags))


LOOP = native("_PyEval_EvalFrameDefault", "/usr/lib/libpython3.13.so", 0, FrameFlag.MACHINERY | FrameFlag.PROVEN)
MAIN = frame("main", 12)
PARSE = frame("Parser.parse", 40, "/srv/site-packages/shop/parser.py", 31)
WALK = frame("walk", 88, "/srv/site-packages/shop/tree.py", 80)
WALK_DEEPER = frame("walk", 91, "/srv/site-packages/shop/tree.py", 80)
SORT = native("list_sort_impl", "/src/Objects/listobject.c", 2871)
CRUNCH = native("crunch", "/srv/fast.c", 120)
HASH = native("<ring::digest>::update", "/srv/digest.rs", 61)
CYTHON = Frame(FrameKind.CYTHON, "shop.fast.score", "/srv/shop/fast.pyx", 17)
READ = Frame(FrameKind.KERNEL, "vfs_read", KERNEL, 0, module=KERNEL)
WAIT = frame("Queue.get", 170, "/usr/lib/python3.13/queue.py", 155)


def woven_capture(path: Path, *, ended: bool = True) -> Path:
    """Four threads for 20 s: one computes in woven stacks, two contend for the GIL, one is blocked all the time."""
    builder = CaptureBuilder(path)
    for number, name in ((2, "worker-1"), (3, "worker-2"), (4, "idle")):
        builder.add_thread(number, 1, 1233 + number, name)
    for turn in range(200):
        builder.run([LOOP, MAIN, PARSE], 20 * MS)
        builder.run([LOOP, MAIN, PARSE, SORT, LOOP, WALK], (10 + turn % 3) * MS)
        builder.run([LOOP, MAIN, PARSE, LOOP, WALK, WALK_DEEPER, WALK, CRUNCH], 30 * MS)
        builder.run([LOOP, MAIN, CYTHON, HASH], 25 * MS)
        builder.run([LOOP, MAIN, frame("load", 60), READ], 5 * MS, state=State.RUNNABLE)
        builder.run([], MS)
        builder.run([LOOP, frame("work", 5), frame("serve", 70)], 60 * MS, thread=2)
        builder.run([LOOP, frame("work", 5), frame("serve", 71)], 40 * MS, thread=2, state=State.GIL)
        builder.run([LOOP, frame("work", 5), frame("serve", 70)], 30 * MS, thread=3)
        builder.run([LOOP, frame("work", 5), frame("serve", 71)], 50 * MS, thread=3, state=State.GIL)
        builder.run([LOOP, frame("work", 5), WAIT], 20 * MS, thread=3, state=State.LOCK)
    waits, serves = (
        builder.stack([frame("work", 5), frame("serve", 71)]),
        builder.stack([frame("work", 5), frame("serve", 70)]),
    )
    sorts = builder.stack([MAIN, PARSE, SORT])
    writer = builder.writer
    writer.add_gil_waits(
        [(3, waits, 1, sorts, 7 * SECOND), (3, waits, 2, serves, 2 * SECOND), (2, waits, 1, sorts, 5 * SECOND)]
    )
    writer.add_gil_waits([(2, waits, 3, 0, SECOND), (2, waits, 0, 0, SECOND // 2)])
    writer.set_standing(4, builder.stack([LOOP, frame("work", 5), WAIT]), State.LOCK, START_NS + 3 * MS)
    writer.set_account(
        {
            "samples_wanted": 3000,
            "samples_taken": 2980,
            "seams_proven": 5400,
            "seams_counted": 31,
            "seams_open": 2,
            "native_whole": 2900,
        }
    )
    writer.set_losses(1, {"unreadable": (12, 30 * MS), "late": (8, 0)})
    if ended:
        return builder.close()
    builder.commit()
    return path
