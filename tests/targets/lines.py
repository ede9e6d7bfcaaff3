"""Blocks in a read that C has called back: `python lines.py LIBRARY`, which is made of lines.c."""

import ctypes
import sys

LIBRARY = ctypes.CDLL(sys.argv[1])


@ctypes.CFUNCTYPE(None)
def stop():
    print("{}")
    sys.stdout.flush()
    sys.stdin.read(1)


LIBRARY.entry(stop)
