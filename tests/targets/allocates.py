"""Asks for memory in C functions that are each called by one Python function, a known number of times; in two threads at once.

Arguments: the library of allocates.c. It waits for a line, does its rounds, and tells for each C function the Python function that
called it, how often it asked, and for how many bytes.
"""

import ctypes
import json
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
TIMES = 20


def call(name, rounds):
    function = getattr(library, name)
    function.restype = function.argtypes = None
    function.restype = ctypes.c_long
    return function(ctypes.c_long(rounds))


def asks_many():
    return call("get_many", 15000)


def asks_clean():
    return call("get_clean", 3000)


def asks_more():
    return call("get_more", 300)


def asks_aligned():
    return call("get_aligned", 600)


def asks_large():
    return call("get_large", 5)


# In one round, C asks so often.
ASKS = [(asks_many, 15000, 1), (asks_clean, 3000, 1), (asks_more, 300, 2), (asks_aligned, 600, 3), (asks_large, 5, 1)]
told = {}


def works():
    for _ in range(TIMES):
        for function, _, _ in ASKS:
            told[function.__name__] = function()


def main():
    sys.stdout.write("{}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    threads = [threading.Thread(target=works) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = {}
    for function, rounds, calls in ASKS:
        name = function.__name__
        answer[name] = {"calls": 2 * TIMES * rounds * calls, "bytes": 2 * TIMES * rounds * told[name]}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


main()
