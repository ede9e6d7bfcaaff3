"""Calls itself and nothing else: recursion.py DEPTH. Tells {"ready": true} on stdout, and waits for its stdin. Python 2.7 and 3."""
import os
import sys


def down(left):
    if left:
        down(left - 1)
    else:
        sys.stdout.write('{"ready": true}\n')
        sys.stdout.flush()
        os.read(0, 1)


sys.setrecursionlimit(int(sys.argv[1]) + 100)
down(int(sys.argv[1]))
