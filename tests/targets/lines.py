"""Waits for the end of its stdin where C has called it back: `python lines.py LIBRARY`, which is made of lines.c.

It wakes now and then, so that a recording that has just got to know the library sees it.
"""

import ctypes
import select
import sys

LIBRARY = ctypes.CDLL(sys.argv[1])


@ctypes.CFUNCTYPE(None)
def stop():
    print("{}")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass


LIBRARY.entry(stop)
