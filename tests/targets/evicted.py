"""A thread deep in calls, the outer part of whose stack is not resident: evicted.py [DEPTH]   (default 120)

Its stack lies in a file's mapping, of which another thread has the kernel take away the pages (MADV_DONTNEED), every 2 ms;
what was in them stays in the file's pages. Those that the thread uses come back at once; those of its older frames are away
until somebody reads them. Each call goes through sorted(), so that there is much of the C stack. At the innermost, `works` and
`rests` take turns. The first line on stdout is {"ready": true}. Ends when stdin closes. Python 2.7 and 3.
"""
import ctypes
import json
import os
import sys
import tempfile
import threading
import time

DEPTH = int(sys.argv[1]) if len(sys.argv) > 1 else 120
SIZE = 8 << 20
READ_WRITE, SHARED, DONTNEED = 3, 1, 4  # of mmap(2) and madvise(2)

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.pthread_attr_setstack.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
there = threading.Event()


def works():
    x = 0
    for i in range(200000):
        x += i & 3
    return x


def rests():
    time.sleep(0.02)


def innermost():
    there.set()
    while True:
        works()
        rests()


def down(depth):
    if depth == 0:
        innermost()
    sorted([depth], key=lambda _: down(depth - 1))


def outermost(_):
    down(DEPTH)


def stack():
    with tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), SIZE)
        return libc.mmap(None, SIZE, READ_WRITE, SHARED, file.fileno(), 0)


def start(begin, body):
    attributes = ctypes.create_string_buffer(64)  # pthread_attr_t
    libc.pthread_attr_init(attributes)
    if libc.pthread_attr_setstack(attributes, begin, SIZE):
        raise OSError("the stack was refused")
    thread = ctypes.c_void_p()
    if libc.pthread_create(ctypes.byref(thread), attributes, body, None):
        raise OSError("no thread could be made")


def evict(begin):
    while True:
        if libc.madvise(begin, SIZE, DONTNEED):
            raise OSError(ctypes.get_errno(), "madvise")
        time.sleep(0.002)


def main():
    sys.setrecursionlimit(10000)
    body = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(outermost)
    begin = stack()
    start(begin, body)
    there.wait()
    evictor = threading.Thread(target=evict, args=(begin,))
    evictor.daemon = True
    evictor.start()
    print(json.dumps({"ready": True}))
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)


main()
