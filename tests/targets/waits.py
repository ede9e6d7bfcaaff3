"""A process whose threads wait in system calls that a stop could end early: waits.py SECONDS   (Python 2.7 and 3)

One thread each waits again and again in select, in epoll_wait, in a read of a pipe that is silent, in a semaphore's timed
wait and in nanosleep, called by ctypes so that no interpreter makes a call again that was interrupted; one computes. No
signal comes. The last line on stdout is {"waits": {kind: count}, "interrupted": {kind: count}}: how many calls there were
and how many of them failed with EINTR.
"""
import ctypes
import errno
import json
import os
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
END = float("inf")  # until main() has started all threads, which takes seconds beside one that computes (2.7)
waits = {}
interrupted = {}


class TimeSpec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def again_and_again(kind, call):
    waits[kind] = interrupted[kind] = 0
    while time.time() < END:
        waits[kind] += 1
        if call() == -1 and ctypes.get_errno() == errno.EINTR:
            interrupted[kind] += 1


def select():
    return libc.select(0, None, None, None, ctypes.byref(TimeSpec(0, 50000)))  # a timeval: microseconds


def epoll_wait():
    return libc.epoll_wait(EPOLL, ctypes.create_string_buffer(12), 1, 50)


def read():
    return libc.read(SILENT, ctypes.create_string_buffer(1), 1)  # until main() writes, at the end


def sem_timedwait():
    now = time.time() + 0.05
    until = TimeSpec(int(now), int(now % 1 * 1e9))
    return libc.sem_timedwait(ctypes.byref(SEMAPHORE), ctypes.byref(until))


def nanosleep():
    return libc.nanosleep(ctypes.byref(TimeSpec(0, 50000000)), None)


def compute():
    while time.time() < END:
        sum(range(1000))


EPOLL = libc.epoll_create1(0)
SILENT, LOUD = os.pipe()
SEMAPHORE = (ctypes.c_long * 4)()
libc.sem_init(ctypes.byref(SEMAPHORE), 0, 0)


def main():
    global END
    threads = [threading.Thread(target=compute)]
    for call in select, epoll_wait, read, sem_timedwait, nanosleep:
        threads.append(threading.Thread(target=again_and_again, args=(call.__name__, call)))
    for thread in threads:
        thread.start()
    sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    END = time.time() + float(sys.argv[1])
    while time.time() < END:
        time.sleep(0.1)
    os.close(LOUD)
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({"waits": waits, "interrupted": interrupted}) + "\n")


main()
