"""Blocks in a function of a library that is made of kernels.c: `python kernels.py LIBRARY FUNCTION`."""

import ctypes
import sys

LIBRARY = ctypes.CDLL(sys.argv[1])


def run(function):
    function()


print("{}")
sys.stdout.flush()
run(LIBRARY["call_" + sys.argv[2]])
