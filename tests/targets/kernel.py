"""In the kernel by construction: kernel.py KIND, until stdin is closed. Python 2.7 and 3.

`reads` reads random numbers, `stats` looks up a path, `faults` touches new pages, `computes` makes no system call,
`turns` makes one of two by chance, each in its own function; `waits` has threads blocked in sleep, select, a lock and a
read, which it tells by their names: {"pid": ..., "tids": {name: tid}}.
"""
import ctypes
import json
import mmap
import os
import random
import select
import sys
import threading
import time

TIDS = {}


def reads():
    os.read(RANDOM, 65536)


def stats():
    os.stat("/proc/self/fd")


def faults():
    memory = mmap.mmap(-1, 1 << 22)
    for page in range(0, 1 << 22, 4096):
        memory[page:page + 1] = b"x"
    memory.close()


def computes():
    total = 0
    for i in range(20000):
        total += i & 7
    return total


def turns():
    random.choice((looks_up, reads_little))()


def reads_little():
    os.read(RANDOM, 5000)


def looks_up():
    os.stat("/proc/self/fd")


def sleeps():
    time.sleep(100000)


def selects():
    select.select([PIPE[0]], [], [])


def locks():
    LOCK.acquire()


def waits_for_input():
    os.read(PIPE[0], 1)


def named(wait):
    TIDS[wait.__name__] = ctypes.CDLL(None).syscall(186)  # gettid
    wait()


def waits():
    for wait in (sleeps, selects, locks, waits_for_input):
        thread = threading.Thread(target=named, args=(wait,))
        thread.daemon = True
        thread.start()
    while len(TIDS) < 4:
        time.sleep(0.01)
    time.sleep(0.2)  # until they are blocked


RANDOM = os.open("/dev/urandom", os.O_RDONLY)
PIPE = os.pipe()
LOCK = threading.Lock()
LOCK.acquire()


def wait_for_end():
    sys.stdin.read()
    os._exit(0)


def main():
    kind = globals()[sys.argv[1]]
    if kind is waits:
        waits()
    else:
        thread = threading.Thread(target=wait_for_end)
        thread.daemon = True
        thread.start()
    sys.stdout.write(json.dumps({"pid": os.getpid(), "tids": TIDS}) + "\n")
    sys.stdout.flush()
    if kind is waits:
        sys.stdin.read()
        os._exit(0)
    while True:
        kind()


main()
