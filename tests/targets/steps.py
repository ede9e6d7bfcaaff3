"""Descends by chance through C into Python and on, with as little work between the calls as can be: `python steps.py`.

For a test that steps it by instructions. Frames of several sizes, on the data stack and in generators, and C stacks of several
depths: what one call leaves behind lies where others begin. Runs on every version, until it is killed.
"""

import random
import re
import sys
from functools import reduce

random.seed(1)
KINDS = [random.choice((0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)) for _ in range(9973)]
DEPTH = 40
PATTERN = re.compile("a")

at = 0
depth = 0


class Slots(object):
    def __lt__(self, other):
        return descend()

    def __del__(self):
        descend()

    def __init__(self):
        descend()


class Quiet(object):
    def __getattr__(self, name):
        return descend()


class Leaf(object):
    def __lt__(self, other):
        return True


QUIET = Quiet()
LEAF = Leaf()


def by_item(item):
    return descend()


def large(a):
    b = c = d = e = f = g = h = i = j = k = l = m = n = a
    descend()
    return (b, c, d, e, f, g, h, i, j, k, l, m, n)


def gen():
    yield descend()
    descend()


def compares():
    LEAF < LEAF
    compares_once()
    LEAF < LEAF


def compares_once(a=0):
    LEAF < LEAF


def raises():
    descend()
    raise KeyError(1)


def descend(a=0, b=0):
    global at, depth
    at = (at + 1) % 9973
    kind = KINDS[at]
    if kind == 0 or depth == DEPTH:
        return True
    depth += 1
    if kind == 1:
        descend()
    elif kind == 2:
        sorted([0], key=by_item)
    elif kind == 3:
        list(map(by_item, [0]))
    elif kind == 4:
        large(1)
    elif kind == 5:
        for _ in gen():
            pass
    elif kind == 6:
        reduce(descend, [0, 0])
    elif kind == 7:
        PATTERN.sub(by_item_of, "a")
    elif kind == 8:
        try:
            raises()
        except KeyError:
            descend()
    elif kind == 9:
        Slots() < 1
    elif kind == 10:
        QUIET.missing
    elif kind == 11:
        compares()
    else:
        compares_once()
    depth -= 1
    return True


def by_item_of(match):
    large(match)
    return "b"


print("{}")
sys.stdout.flush()
while True:
    depth = 0
    descend()
