"""What the benchmarks record: calls about 30 deep, THREADS of them at once, beside IDLE threads that sleep.

    busy.py SECONDS [THREADS [IDLE]]

Writes "ready", and at the end how many turns a second it made.
"""

import sys
import threading
import time

DEPTH = 25


def leaf(number):
    return number + 1


def middle(number):
    for _ in range(10):
        number = leaf(number)
    return number


def down(depth, until):
    if depth:
        return down(depth - 1, until)
    turns = 0
    while time.monotonic() < until:
        for _ in range(100):
            middle(turns)
        turns += 1
    return turns


def main():
    seconds, threads, idle = ([float(word) for word in sys.argv[1:]] + [1, 0])[:3]
    for _ in range(int(idle)):
        threading.Thread(target=time.sleep, args=(seconds,), daemon=True).start()
    until = time.monotonic() + seconds
    turns = []
    busy = [threading.Thread(target=lambda: turns.append(down(DEPTH, until))) for _ in range(int(threads) - 1)]
    for thread in busy:
        thread.start()
    print("ready", flush=True)
    turns.append(down(DEPTH, until))
    for thread in busy:
        thread.join()
    print(sum(turns) / seconds, flush=True)


main()
