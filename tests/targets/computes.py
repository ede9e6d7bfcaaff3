"""Computes without end, or waits once its stacks are set up: computes.py WORK LIBRARY OWN_STACK [PACKAGES]

WORK: one of the functions below. LIBRARY, made of callbacks.cpp, handles SIGUSR1 by a read of stdin, on a stack of its own
if OWN_STACK is 1. First it reads stdin at the very place that it computes from. Python 2.7 and 3.
"""

import ctypes
import hashlib
import os
import sqlite3
import sys

LIBRARY = ctypes.CDLL(sys.argv[2])
if len(sys.argv) > 4:
    sys.path.insert(0, sys.argv[4])
    import numpy

    VECTOR = numpy.arange(1 << 20, dtype=float)
    # OpenBLAS's kernel for Haswell keeps 256 columns on its stack. Asked for on another CPU, it is given more of a larger
    # matrix; then it overwrites its return address, if its stack is aligned for that.
    MATRIX = numpy.ones((250, 250))

BUFFER = b"weft" * (1 << 20)
ORDERED = [float(i * 7919 % 100003) for i in range(100000)]
QUERY = "with recursive n(i) as (select 1 union all select i + 1 from n limit 200000) select sum(i * i) from n"


def digest():
    hashlib.sha512(BUFFER).hexdigest()


def sort():
    sorted(ORDERED)


def query():
    sqlite3.connect(":memory:").execute(QUERY).fetchall()


def mixed():
    digest()
    sort()
    query()


def dot():
    numpy.dot(VECTOR, VECTOR)


def product():
    numpy.dot(MATRIX, MATRIX)


def wait():
    os.read(0, 1)


def main():
    work = wait
    while True:
        work()
        work = globals()[sys.argv[1]]


sys.stdout.write("{}\n")
sys.stdout.flush()
if LIBRARY.handle(int(sys.argv[3])) == 0:
    main()
