"""Calls, as deep as is wanted, of which some are from C: worker.py COUNTER RUNNING BLOCKED SORTS DEPTH

RUNNING threads compute DEPTH calls deep, of which SORTS are called by sorted(); BLOCKED ones wait. The work done so
far is the number at the start of the file COUNTER, as eight bytes in the machine's order. Ends when stdin closes.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
import time


def main() -> None:
    with open(sys.argv[1], "r+b") as file:  # noqa: PTH123
        counter = mmap.mmap(file.fileno(), 8)
    done = [0] * int(sys.argv[2])
    sorts = int(sys.argv[4])
    depth = int(sys.argv[5])
    sys.setrecursionlimit(depth + 1000)

    def leaf(x: int) -> int:
        return x + 1

    def descend(n: int) -> int:
        if 0 < n <= sorts:
            return sorted([n - 1], key=descend)[0]
        if n:
            return descend(n - 1)
        total = 0
        for i in range(200):
            total = leaf(total + i)
        return total

    def compute(number: int) -> None:
        while True:
            descend(depth)
            done[number] += 1
            if number == 0:
                struct.pack_into("=q", counter, 0, sum(done))

    # First those that wait: beside threads that compute, each would need its turn of the GIL before it can.
    for _ in range(int(sys.argv[3])):
        threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
    for number in range(int(sys.argv[2])):
        threading.Thread(target=compute, args=(number,), daemon=True).start()
    if "perf_jit" in sys._xoptions:  # CPython holds the last 4 KiB of its jitdump back: they are not to be ours
        for _ in range(64):
            eval("lambda: 0")()
    print("{}", flush=True)
    sys.stdin.read()
    os._exit(0)


main()
