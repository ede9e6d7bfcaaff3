"""Greenlets that switch to each other by chance, for SECONDS: greenlets.py SECONDS PACKAGES

Each has code of its own, in a file of its own name, and descends through C as woven.py does: `via_X` is called by the C
function X. Python 2.7 and 3.
"""

import os
import re
import sys
import time

sys.path.insert(0, sys.argv[2])
from greenlet import greenlet, getcurrent

GREENLETS = 8
SOURCE = """
left = 0

def spin():
    total = 0
    for i in range(chance(300)):
        total += i * i
    return total

def via_direct():
    return descend()

def via_sorted(item):
    return descend()

def via_map(item):
    return descend()

def via_re(match):
    descend()
    return "b"

def via_lt(self, other):
    descend()
    return True

class Slots(object):
    __lt__ = via_lt

SLOTS = Slots()

def descend():
    global left
    spin()
    if left == 0:
        return switch()
    left -= 1
    kind = chance(5)
    if kind == 0:
        via_direct()
    elif kind == 1:
        sorted([0], key=via_sorted)
    elif kind == 2:
        list(map(via_map, [0]))
    elif kind == 3:
        PATTERN.sub(via_re, "a")
    else:
        SLOTS < SLOTS
    if chance(4) == 0:
        switch()
    return spin()

def body():
    global left
    while True:
        left = chance(20)
        descend()
"""
seed = 1


def chance(n):
    global seed
    seed = (seed * 1103515245 + 12345) % 2147483648
    return (seed >> 8) % n


def switch():
    (MAIN if time.time() > END else SWITCHING[chance(GREENLETS)]).switch()


def code_of(number):
    names = {"chance": chance, "switch": switch, "PATTERN": re.compile("a")}
    exec(compile(SOURCE, "greenlet_%d.py" % number, "exec"), names)
    return names["body"]


MAIN = getcurrent()
SWITCHING = [greenlet(code_of(number)) for number in range(GREENLETS)]
END = time.time() + float(sys.argv[1])
sys.stdout.write("{}\n")
sys.stdout.flush()
SWITCHING[0].switch()
os._exit(0)  # without ending the others
