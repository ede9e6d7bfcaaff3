"""Descends by chance through C into Python and on, for SECONDS: `python woven.py SECONDS [DEPTH]`.

Each step goes from `descend` to a function `via_X`, and that to the next `descend`. X tells which C function has called it,
so the names of the Python frames tell which native frames must lie between them. Runs on every version.
"""

import ctypes
import re
import sys
import time
from functools import reduce

DEPTH = int(sys.argv[2]) if sys.argv[2:] else 50
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
LIBC = ctypes.CDLL(None)
PAIR = (ctypes.c_int * 2)(1, 0)
PATTERN = re.compile("a")

left = 0
seed = 1


def chance(n):
    global seed
    seed = (seed * 1103515245 + 12345) % 2147483648
    return (seed >> 8) % n


def spin():
    total = 0
    for i in range(chance(40)):
        total += i * i
    return total


def via_direct():
    return descend()


def via_sorted(item):
    return descend()


def via_map(item):
    return descend()


def via_reduce(a, b):
    return descend()


def via_re(match):
    descend()
    return "b"


def via_qsort(a, b):
    descend()
    return 0


def via_lt(self, other):
    descend()
    return True


def via_next(self):
    descend()
    return 1


def via_call(self):
    return descend()


def via_getattr(self, name):
    return descend()


def via_gen():
    descend()
    yield 1


class Slots(object):
    __lt__ = via_lt
    __next__ = next = via_next
    __call__ = via_call
    __getattr__ = via_getattr


SLOTS = Slots()
CALLBACK = COMPARE(via_qsort)


def descend():
    global left
    spin()
    if left == 0:
        return 0
    left -= 1
    kind = chance(11)
    if kind == 0:
        via_direct()
    elif kind == 1:
        sorted([0], key=via_sorted)
    elif kind == 2:
        list(map(via_map, [0]))
    elif kind == 3:
        reduce(via_reduce, [0, 0])
    elif kind == 4:
        PATTERN.sub(via_re, "a")
    elif kind == 5:
        LIBC.qsort(PAIR, 2, 4, CALLBACK)
    elif kind == 6:
        SLOTS < SLOTS
    elif kind == 7:
        next(SLOTS)
    elif kind == 8:
        SLOTS()
    elif kind == 9:
        SLOTS.missing
    else:
        generator = via_gen()
        next(generator, 0)
        next(generator, 0)  # so that it ends here, and not when it is freed
    return spin()


def main(seconds):
    global left
    end = time.time() + seconds
    print("{}")
    sys.stdout.flush()
    while time.time() < end:
        left = chance(DEPTH)
        descend()


main(float(sys.argv[1]))
