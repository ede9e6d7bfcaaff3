"""Two functions in turns of half a period each, on the dot: rhythm.py SECONDS PERIOD CLOCK

CLOCK is whose time the period is in: cpu (the thread's) or wall. The last line on stdout is {"cpu_s": {function: seconds}}.
Python 3.3 and newer.
"""
import json
import os
import sys
import time

CLOCKS = {"cpu": time.CLOCK_THREAD_CPUTIME_ID, "wall": time.CLOCK_MONOTONIC}


def first(clock, end):
    while time.clock_gettime(clock) < end:
        pass


def second(clock, end):
    while time.clock_gettime(clock) < end:
        pass


def main():
    half = float(sys.argv[2]) / 2
    clock = CLOCKS[sys.argv[3]]
    used = {first: 0.0, second: 0.0}
    end = time.time() + float(sys.argv[1])
    sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    turn_ends = time.clock_gettime(clock)
    while time.time() < end:
        for function in used:
            before = time.clock_gettime(CLOCKS["cpu"])
            turn_ends += half
            function(clock, turn_ends)
            used[function] += time.clock_gettime(CLOCKS["cpu"]) - before
    told = dict((function.__name__, seconds) for function, seconds in used.items())
    sys.stdout.write(json.dumps({"cpu_s": told}) + "\n")


main()
