"""Runs on while threads that it has made do not begin, which newborn.c sees to: newborn.py THREADS

The first line on stdout is {"ready": true}. Runs until it is ended. Python 2.7 and 3.
"""
import os
import sys

try:
    import _thread
except ImportError:
    import thread as _thread


def born():
    pass


def works():
    while True:
        for _ in range(1000):
            step(1)


def step(x):
    return x + 1


def main():
    for _ in range(int(sys.argv[1])):
        _thread.start_new_thread(born, ())
    sys.stdout.write('{"ready": true}\n')
    sys.stdout.flush()
    works()


main()
