"""A program whose result shows whether it was disturbed: steady.py

Until its stdin closes it does, all at once: two threads compute, one reads what a child writes, two pass a token to and
fro through locks, one starts children (fork) that end with a status, a timer of 500 Hz interrupts it all, and the main
thread waits for its stdin. The last line on stdout is what came out: {"chains": [[rounds, checksum], ...], "read":
[numbers, sum], "passed": [there, back], "children": [started, right], "ticks", "errors": [text, ...]}. Its exit status is
0. Python 2.7 and 3.
"""
import errno
import json
import os
import signal
import sys
import threading
import time
import traceback
import zlib

BLOCK = bytes(bytearray(range(256))) * 64
ending = threading.Event()
told = {"chains": [], "read": [0, 0], "passed": [0, 0], "children": [0, 0], "ticks": 0, "errors": []}


def on_tick(_number, _frame):
    told["ticks"] += 1


def again(call, *arguments):
    """A system call, made again when a signal interrupts it (2.7; later versions do so by themselves)."""
    while True:
        try:
            return call(*arguments)
        except EnvironmentError as error:
            if error.errno != errno.EINTR:
                raise


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def compute():
    rounds = checksum = 0
    while not ending.is_set():
        if depth(20) != 20:
            raise ValueError("a wrong depth")
        checksum = zlib.crc32(BLOCK, checksum) & 0xFFFFFFFF
        rounds += 1
    told["chains"].append([rounds, checksum])


def write_numbers(out):
    """In a child: 1, 2, 3, ... until the reader has gone."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    number = 0
    while True:
        number += 1
        os.write(out, b"%7d\n" % number)
        time.sleep(0.001)


def read_numbers():
    numbers, out = os.pipe()
    writer = os.fork()
    if writer == 0:
        try:
            os.close(numbers)
            write_numbers(out)
        finally:
            os._exit(1)
    os.close(out)
    while not ending.is_set():
        line = b""
        while len(line) < 8:
            line += again(os.read, numbers, 8 - len(line))
        told["read"][0] += 1
        told["read"][1] += int(line)
    os.close(numbers)
    again(os.waitpid, writer, 0)


def start_children():
    while not ending.is_set():
        child = os.fork()
        if child == 0:
            try:
                os._exit(7 if depth(50) == 50 else 1)
            finally:
                os._exit(2)
        told["children"][0] += 1
        told["children"][1] += again(os.waitpid, child, 0)[1] == 7 << 8
        again(time.sleep, 0.01)


def passing(mine, other, side):
    while True:
        mine.acquire()
        if ending.is_set():
            return
        told["passed"][side] += 1
        try:
            other.release()
        except (threading.ThreadError, RuntimeError):
            if not ending.is_set():  # at the end, main() releases both
                raise


def guarded(function, *arguments):
    try:
        function(*arguments)
    except Exception:
        told["errors"].append(traceback.format_exc())


def start(function, *arguments):
    thread = threading.Thread(target=guarded, args=(function,) + arguments, name=function.__name__)
    thread.start()
    return thread


def main():
    signal.signal(signal.SIGALRM, on_tick)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    there, back = threading.Lock(), threading.Lock()
    back.acquire()
    threads = [start(compute), start(compute), start(read_numbers), start(start_children)]
    passers = [start(passing, there, back, 0), start(passing, back, there, 1)]
    sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    again(os.read, 0, 1)
    ending.set()
    for thread in threads + passers:
        while thread.is_alive():
            if thread in passers:
                for lock in there, back:
                    try:
                        lock.release()
                    except (threading.ThreadError, RuntimeError):
                        pass  # nobody holds it
            again(thread.join, 0.1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout.write(json.dumps(told) + "\n")


main()
