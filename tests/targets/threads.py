"""Many threads of which two run: threads.py [THREADS]   (default 200)

The others block, a quarter each: in a lock, in a sleep, in a read, in a select. The first line on stdout is {"threads":
{kind: [TID, ...]}}, the kinds being "run", "lock", "sleep", "read" and "select", when all are where they will stay.
Ends when stdin closes. Python 2.7 and 3.
"""
import json
import os
import select
import sys
import threading
import time

from walk import native_thread_id

NEVER, _ = os.pipe()  # nobody writes to it
LOCK = threading.Lock()
LOCK.acquire()
tids = {"run": [], "lock": [], "sleep": [], "read": [], "select": []}


def run():
    while True:
        for _ in range(1000):
            step(1)


def step(x):
    return x + 1


def lock():
    LOCK.acquire()


def sleep():
    time.sleep(1e6)


def read():
    os.read(NEVER, 1)


def wait():
    select.select([NEVER], [], [])


def start(kind, function):
    def body():
        tids[kind].append(native_thread_id())
        function()

    thread = threading.Thread(target=body, name="%s-%d" % (kind, len(tids[kind])))
    thread.daemon = True
    thread.start()


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    blocked = [("lock", lock), ("sleep", sleep), ("read", read), ("select", wait)]
    for number in range(count - 2):
        start(*blocked[number % 4])
    start("run", run)
    start("run", run)
    while sum(map(len, tids.values())) < count:
        time.sleep(0.01)
    time.sleep(0.1)  # from the list to the call that blocks is a few instructions
    sys.stdout.write(json.dumps({"pid": os.getpid(), "threads": tids}) + "\n")
    sys.stdout.flush()
    os.read(0, 1)
    os._exit(0)


main()
