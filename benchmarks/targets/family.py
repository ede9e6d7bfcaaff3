"""Processes that compute, each a part of the time, so that all together use about one CPU: family.py PROCESSES

Ends when stdin closes, and all with it.
"""

from __future__ import annotations

import os
import signal
import sys
import time

WORK_S = 0.005  # at a time


def leaf(x: int) -> int:
    return x + 1


def works(processes: int) -> None:
    while True:
        end = time.monotonic() + WORK_S
        total = 0
        while time.monotonic() < end:
            for i in range(200):
                total = leaf(total + i)
        time.sleep(WORK_S * (processes - 1))


def main() -> None:
    processes = int(sys.argv[1])
    for _ in range(processes - 1):
        if os.fork() == 0:
            works(processes)
    print("{}", flush=True)
    if os.fork() == 0:
        sys.stdin.read()
        os.killpg(0, signal.SIGKILL)
    works(processes)


main()
