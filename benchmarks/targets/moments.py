"""Computes in functions that are named for the time: moments.py IMPORTS

`at_N` runs from N to N + 1 hundredths of a second of CLOCK_MONOTONIC, so that the earliest of them that a recorder has
seen tells when its first sample was. IMPORTS, separated by commas, are loaded first; "": none.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable

SOURCE = """
def at_{0}(end):
    while monotonic() < end:
        for i in range(200):
            i * i
"""
AHEAD = 1000  # functions that are made at a time: ten seconds of them


def made(first: int) -> dict[int, Callable[[float], None]]:
    """Functions for the hundredths of a second from this one on."""
    names: dict[str, object] = {"monotonic": time.monotonic}
    exec("".join(SOURCE.format(number) for number in range(first, first + AHEAD)), names)
    return {number: names[f"at_{number}"] for number in range(first, first + AHEAD)}  # type: ignore[misc]


def main() -> None:
    for name in filter(None, sys.argv[1].split(",")):
        importlib.import_module(name)
    functions: dict[int, Callable[[float], None]] = {}
    print("{}", flush=True)
    while True:
        now = int(time.monotonic() * 100)
        if now not in functions:
            functions = made(now)
            continue
        functions[now]((now + 1) / 100)


main()
