"""Blocks in a read, called through each kind of Cython function: `python cythons.py FOLDER`, where fixture.so lies."""

import sys

sys.path.insert(0, sys.argv[1])
import fixture  # noqa: E402


def stop(n):
    print("{}")
    sys.stdout.flush()
    sys.stdin.read(1)


def through_fused(n):
    return fixture.fused(2.5, stop)


def through_gen(n):
    return next(fixture.gen(through_fused, n))


def through_inner(n):
    return fixture.outer(through_gen)(n)


def through_plain(n):
    return fixture.plain(through_inner, n)


fixture.Shape(through_plain).method(1)
