"""Descends by chance through C and Python for SECONDS: `python trampolines.py SECONDS`, with CPython's perf support on.

Each Python frame that runs then has a trampoline of its own on the C stack. Python 3.12 and later.
"""

import ctypes
import re
import sys
import time
from random import Random

DEPTH = 40
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
LIBC = ctypes.CDLL(None)
PAIR = (ctypes.c_int * 2)(1, 0)
CHANCE = Random(1)

left = 0


class Made:
    def __init__(self):
        descend()


class Compared:
    def __lt__(self, other):
        descend()
        return True


def generator():
    descend()
    yield 1


def by_sort():
    sorted([0], key=lambda _: descend())


def by_lt():
    sorted([Compared(), Compared()])


def by_map():
    list(map(lambda _: descend(), [0]))


def by_re():
    re.sub("a", lambda _: descend() or "b", "a")


@COMPARE
def compare(_first, _second):
    descend()
    return 0


def by_qsort():
    LIBC.qsort(PAIR, 2, 4, compare)


def by_generator():
    for _ in generator():
        pass


def by_comprehension():
    list(descend() for _ in range(1))


def spin():
    total = 0
    for i in range(CHANCE.randrange(40)):
        total += i * i
    return total


WAYS = (by_sort, by_lt, by_map, by_re, by_qsort, by_generator, by_comprehension, Made)


def descend():
    global left
    spin()
    if left:
        left -= 1
        CHANCE.choice(WAYS)()
    spin()


def main(seconds):
    global left
    end = time.process_time() + seconds
    print("{}")
    sys.stdout.flush()
    while time.process_time() < end:
        left = CHANCE.randrange(DEPTH)
        descend()


main(float(sys.argv[1]))
