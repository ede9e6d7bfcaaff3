"""Computes in its first thread, among THREADS others that wait: `crowd.py THREADS`. Ends after a while. Python 2.7 and 3."""
import sys
import threading
import time

LOCK = threading.Lock()
LOCK.acquire()


def wait():
    LOCK.acquire()


def spin(end):
    while time.time() < end:
        sum(range(1000))


def main(count):
    threading.stack_size(64 << 10)
    for _ in range(count):
        thread = threading.Thread(target=wait)
        thread.daemon = True
        thread.start()
    print("{}")
    sys.stdout.flush()
    spin(time.time() + 200)


main(int(sys.argv[1]))
