"""Calls a function of each of many large libraries, in turns: mapped.py LIBRARY..."""

from __future__ import annotations

import ctypes
import sys

libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]
print("{}", flush=True)
while True:
    for library in libraries:
        library.spin(ctypes.c_long(200_000))
