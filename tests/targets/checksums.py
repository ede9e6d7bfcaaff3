"""Two checksums of libz, turn by turn, each called by a function of its own: the C function tells the Python function.

    checksums.py SECONDS

A turn takes some microseconds. Python 2.7 and 3.
"""
import json
import os
import sys
import time
import zlib

DATA = b"0123456789abcdef" * 64  # less than what zlib lets go of the GIL for


def crc():
    return zlib.crc32(DATA)


def adler():
    return zlib.adler32(DATA)


END = time.time() + float(sys.argv[1])
sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
sys.stdout.flush()
while time.time() < END:
    for _ in range(1000):
        crc()
        adler()
