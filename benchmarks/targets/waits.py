"""A thread that waits in turns, in a function each: waits.py

It sleeps, reads a pipe, waits for a lock, waits for the GIL, and computes. What has had the least time so far has the
next turn, of 5 to 40 ms, drawn by chance, so that the parts are equal over every stretch of a second or more. Each turn
has a function of its own above, turn_0, turn_1 and so on, so that a recording tells which ones it has seen. The last
line on stdout, once stdin ends, is {"turns": [[function, begin, end], ...]} by CLOCK_MONOTONIC in seconds, as that
thread notes them.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from types import FunctionType

NAP_S = 0.002  # until the GIL is taken by another
usleep = ctypes.PyDLL(None).usleep  # it does not let go of the GIL
source, sink = os.pipe()
lock = threading.Lock()
asked = {name: threading.Semaphore(0) for name in ("write", "hold", "hold_gil")}
ready = threading.Semaphore(0)
turns: list[tuple[str, float, float]] = []
turn_s = 0.0


def writes() -> None:
    while True:
        asked["write"].acquire()
        time.sleep(turn_s)
        os.write(sink, b"x")


def holds() -> None:
    while True:
        asked["hold"].acquire()
        with lock:
            ready.release()
            time.sleep(turn_s)


def holds_gil() -> None:
    while True:
        asked["hold_gil"].acquire()
        time.sleep(NAP_S / 4)
        usleep(round(turn_s * 1e6))


def waits_for_sleep() -> None:
    time.sleep(turn_s)


def waits_for_pipe() -> None:
    os.read(source, 1)


def waits_for_lock() -> None:
    with lock:
        pass


def waits_for_gil() -> None:
    time.sleep(NAP_S)


def computes() -> None:
    end = time.monotonic() + turn_s
    while time.monotonic() < end:
        pass


def prepare(function: Callable[[], None]) -> None:
    """Set others to what is to be waited for."""
    if function is waits_for_pipe:
        asked["write"].release()
    elif function is waits_for_lock:
        asked["hold"].release()
        ready.acquire()
    elif function is waits_for_gil:
        asked["hold_gil"].release()


def turn(function: Callable[[], None]) -> None:
    function()


def named(name: str) -> FunctionType:
    return FunctionType(turn.__code__.replace(co_name=name, co_qualname=name), globals())


FUNCTIONS = (waits_for_sleep, waits_for_pipe, waits_for_lock, waits_for_gil, computes)


def works() -> None:
    global turn_s
    used = dict.fromkeys(FUNCTIONS, 0.0)
    kept = []  # a recorder may know code by its address
    while True:
        function = min(FUNCTIONS, key=used.__getitem__)
        turn_s = random.uniform(0.005, 0.04)
        kept.append(named(f"turn_{len(turns)}"))
        prepare(function)
        begin = time.monotonic()
        kept[-1](function)
        end = time.monotonic()
        used[function] += end - begin
        turns.append((function.__name__, begin, end))


for thread in (writes, holds, holds_gil, works):
    threading.Thread(target=thread, daemon=True).start()
print(json.dumps({"pid": os.getpid()}), flush=True)
sys.stdin.read()
print(json.dumps({"turns": turns}), flush=True)
os._exit(0)
