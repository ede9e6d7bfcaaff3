"""Python and C that call each other: nested.py DEPTH

Frames in turn by sort, re, map, qsort (through ctypes and libffi) and repr, as deep as told; then it waits for its stdin.
Python 2.7 and 3.
"""
import ctypes
import json
import os
import re
import sys

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
libc = ctypes.CDLL(None)


class Shown(object):
    def __init__(self, depth):
        self.depth = depth

    def __repr__(self):
        down(self.depth)
        return "shown"


def by_sort(depth):
    sorted([1], key=lambda _: down(depth) or 0)


def by_re(depth):
    re.sub("a", lambda _: down(depth) or "", "a")


def by_map(depth):
    list(map(lambda _: down(depth), [1]))


def by_qsort(depth):
    called = []

    def compare(_a, _b):
        if not called:
            called.append(True)
            down(depth)
        return 0

    libc.qsort((ctypes.c_int * 2)(1, 2), 2, 4, COMPARE(compare))


def by_repr(depth):
    repr([Shown(depth)])


def down(depth):
    if depth:
        (by_sort, by_re, by_map, by_qsort, by_repr)[depth % 5](depth - 1)
    else:
        sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
        sys.stdout.flush()
        os.read(0, 1)


down(int(sys.argv[1]))
