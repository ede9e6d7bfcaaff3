"""Large writes to a pipe that is full nearly always: writes.py SECONDS (of its own time)

Between them it computes, so that weft's ticks come right before a write, too. The last line on stdout is {"writes": how
many, "short": how many wrote less than they were given}. Python 2.7 and 3.
"""
import json
import os
import sys
import threading

DATA = b"weft" * (1 << 18)


def drain(read):
    while os.read(read, 1 << 16):
        pass


def cpu_s():
    return sum(os.times()[:2])


def compute():
    total = 0
    for i in range(20000):
        total += i
    return total


def main():
    read, write = os.pipe()
    reader = threading.Thread(target=drain, args=(read,))
    reader.start()
    sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    writes = short = 0
    end = cpu_s() + float(sys.argv[1])
    while cpu_s() < end:
        short += os.write(write, DATA) < len(DATA)
        writes += 1
        compute()
    os.close(write)
    reader.join()
    sys.stdout.write(json.dumps({"writes": writes, "short": short}) + "\n")


main()
