"""In the kernel by construction: kernel.py KIND, until stdin is closed. Python 2.7 and 3.

`reads` reads random numbers, `stats` looks up a path, `faults` touches new pages, `computes` makes no system call,
`turns` makes one of two by chance, each in its own function; `waits` has threads blocked in sleep, select, a lock and
reads, which it tells by their names: {"pid": ..., "tids": {name: tid}}. `waits_by_turns` waits in one of those by
chance, for a moment.
"""
import ctypes
import json
import mmap
import os
import random
import select
import socket
import struct
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


def sleeps(seconds=100000):
    time.sleep(seconds)


def selects(seconds=100000):
    select.select([PIPE[0]], [], [], seconds)


def waits_for_timer(seconds=100000):
    interval = struct.pack("qqqq", 0, 0, int(seconds), int(seconds % 1 * 1e9))
    timer = LIBC.timerfd_create(1, 0)  # CLOCK_MONOTONIC
    LIBC.timerfd_settime(timer, 0, interval, None)
    os.read(timer, 8)
    os.close(timer)


def waits_for_message(seconds=100000):
    ours, _theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", int(seconds), int(seconds % 1 * 1e6)))
    try:
        os.read(ours.fileno(), 1)
    except OSError:
        pass  # EAGAIN: its time is up


def locks():
    LOCK.acquire()


def waits_for_input():
    os.read(PIPE[0], 1)


def named(wait):
    TIDS[wait.__name__] = LIBC.syscall(186)  # gettid
    wait()


def waits():
    for wait in BLOCKED:
        thread = threading.Thread(target=named, args=(wait,))
        thread.daemon = True
        thread.start()
    while len(TIDS) < len(BLOCKED):
        time.sleep(0.01)
    time.sleep(0.2)  # until they are blocked


def waits_by_turns():
    random.choice(BLOCKED_FOR_A_TIME)(0.001)


BLOCKED_FOR_A_TIME = sleeps, selects, waits_for_timer, waits_for_message
BLOCKED = BLOCKED_FOR_A_TIME + (locks, waits_for_input)
LIBC = ctypes.CDLL(None)
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
