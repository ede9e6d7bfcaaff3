"""Waits in a way that is told as the argument, and logs each wait by its own clock (CLOCK_MONOTONIC, in ns).

Those that wait for the GIL take the library of nap.c as a second one.

Half a second after the end of stdin it prints the waits, [[begin, end, function], ...].
"""

import ctypes
import json
import os
import random
import sys
import threading
import time

if hasattr(time, "monotonic"):
    monotonic = time.monotonic
else:

    class Timespec(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_long), ("ns", ctypes.c_long)]

    clock_gettime = ctypes.PyDLL(None).clock_gettime  # it does not let go of the GIL

    def monotonic():
        now = Timespec()
        clock_gettime(1, ctypes.byref(now))
        return now.seconds + now.ns / 1e9


INTERVAL = 0.05
if hasattr(sys, "setswitchinterval"):
    sys.setswitchinterval(INTERVAL)  # a thread that waits for the GIL wakes up so often to ask for it

usleep = ctypes.PyDLL(None).usleep  # nor does this
waits = []
numbers = [random.random() for _ in range(400000)]


def start(function):
    thread = threading.Thread(target=function)
    thread.daemon = True
    thread.start()


def sleeps():
    while True:
        begin = monotonic()
        time.sleep(0.03)
        waits.append((begin, monotonic()))


def sleeps_long():
    begin = monotonic()
    time.sleep(0.0006)
    waits.append((begin, monotonic(), "sleeps_long"))


def sleeps_short():
    begin = monotonic()
    time.sleep(0.0001)
    waits.append((begin, monotonic(), "sleeps_short"))


def sleeps_often():
    while True:
        sleeps_long()
        sleeps_short()


def rests():
    begin = monotonic()
    time.sleep(random.uniform(0.003, 0.005))
    waits.append((begin, monotonic(), "rests"))


def rests_on():
    begin = monotonic()
    time.sleep(random.uniform(0.008, 0.012))
    waits.append((begin, monotonic(), "rests_on"))


def works_and_rests():
    while True:
        end = monotonic() + random.uniform(0.003, 0.005)
        while monotonic() < end:
            pass
        rests()
        rests_on()


def reads():
    source, sink = os.pipe()

    def writes():
        while True:
            time.sleep(0.03)
            os.write(sink, b"x")

    start(writes)
    while True:
        begin = monotonic()
        os.read(source, 1)
        waits.append((begin, monotonic()))


def pauses():
    time.sleep(0.001)


def locks():
    lock = threading.Lock()

    def holds_it():
        while True:
            with lock:
                time.sleep(0.03)
            time.sleep(0.005)

    start(holds_it)
    while True:
        begin = monotonic()
        lock.acquire()
        waits.append((begin, monotonic()))
        lock.release()
        pauses()


def waits_for_gil():
    nap = ctypes.CDLL(sys.argv[2]).nap
    nap.argtypes, nap.restype = [ctypes.c_double], ctypes.c_double
    while True:
        begin = nap(0.005)
        end = monotonic()
        if end > begin + 0.005:
            waits.append((begin, end))


def holds_gil_asleep():
    while True:
        time.sleep(0.03)
        usleep(200000)


def holds_gil_at_work():
    while True:
        time.sleep(0.03)
        sorted(numbers)


def gil_asleep():
    start(holds_gil_asleep)
    waits_for_gil()


def gil_at_work():
    start(holds_gil_at_work)
    waits_for_gil()


start(globals()[sys.argv[1]])
print(json.dumps({"pid": os.getpid()}))
sys.stdout.flush()
sys.stdin.read()
time.sleep(0.5)  # so that the wait that the end of the recording cut is logged, too
print(json.dumps({"waits": [[int(wait[0] * 1e9), int(wait[1] * 1e9)] + list(wait[2:] or sys.argv[1:2]) for wait in list(waits)]}))
sys.stdout.flush()
