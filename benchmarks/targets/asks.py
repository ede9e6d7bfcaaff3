"""Asks libc for known amounts of memory, then does ordinary work, and ends: asks.py LIBRARY TIMES

The library is that of the tests' allocates.c; each of its functions is called by one Python function. The only line on
stdout: {"asked": {function: bytes}, "calls": how often it asked, "asks_s": in so many seconds of
CPU time, "works_s": and its other work took so many}.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time

library = ctypes.CDLL(sys.argv[1])
TIMES = int(sys.argv[2])
ROUNDS = {"asks_many": 15000, "asks_clean": 3000, "asks_more": 300, "asks_aligned": 600, "asks_large": 5}
CALLS = {"asks_more": 2, "asks_aligned": 3}  # in a round of C's; the others: one
RECORDS = [{"name": f"name {n}", "tags": ["one", "two"], "size": n * 1.5, "text": "x" * 600} for n in range(200)]


def asks_many() -> int:
    return int(library.get_many(ROUNDS["asks_many"]))


def asks_clean() -> int:
    return int(library.get_clean(ROUNDS["asks_clean"]))


def asks_more() -> int:
    return int(library.get_more(ROUNDS["asks_more"]))


def asks_aligned() -> int:
    return int(library.get_aligned(ROUNDS["asks_aligned"]))


def asks_large() -> int:
    return int(library.get_large(ROUNDS["asks_large"]))


def works() -> None:
    for _ in range(8 * TIMES):
        records = json.loads(json.dumps(RECORDS))
        sorted(records, key=lambda record: record["size"] % 7)


def main() -> None:
    asked = dict.fromkeys(ROUNDS, 0)
    begin = time.process_time()
    for _ in range(TIMES):
        for function in (asks_many, asks_clean, asks_more, asks_aligned, asks_large):
            asked[function.__name__] += function() * ROUNDS[function.__name__]
    middle = time.process_time()
    works()
    calls = TIMES * sum(rounds * CALLS.get(name, 1) for name, rounds in ROUNDS.items())
    end = time.process_time()
    told = {"asked": asked, "calls": calls, "asks_s": middle - begin, "works_s": end - middle}
    print(json.dumps(told), flush=True)


main()
