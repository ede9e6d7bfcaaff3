"""Three kinds of work that get a third of the CPU time each, in turns of one or two milliseconds: shares.py SECONDS KIND...

A long loop in pure Python (`loop`), a storm of short calls (`calls`), C code (`c_code`, of which one half releases the GIL
and the other does not), short system calls (`system_calls`) and long ones (`long_system_calls`), whose turns are longer:
weft sees a thread in the kernel some 50 us after the tick. Whoever has had the least CPU time of the thread so far has the
next turn, so that the shares are equal over every stretch of a second or more. The last line on stdout is {"cpu_s": {kind:
seconds}}, measured from inside. Python 2.7 and 3; from 3.3 on with a clock of the thread, before with that of the process.
"""
import json
import os
import sys
import tempfile
import time
import zlib

BUFFER = b"weft" * 200000
NUMBERS = list(range(80000))

if hasattr(time, "clock_gettime"):
    def cpu_s():
        return time.clock_gettime(3)  # CLOCK_THREAD_CPUTIME_ID, which time names from 3.3 on
else:
    cpu_s = time.clock


def loop():
    total = 0
    i = 0
    while i < 20000:
        total += i & 7
        i += 1
    return total


def short(x):
    return x


def shorter(x):
    return short(x)


def calls():
    for x in RANGE:
        short(x)
        shorter(x)


def c_code():
    zlib.crc32(BUFFER)
    sum(NUMBERS)


def system_calls():
    for _ in SHORT_RANGE:
        os.stat(os.sep)


def long_system_calls():
    for _ in FEW:
        os.lseek(FILE.fileno(), 0, os.SEEK_SET)
        os.read(FILE.fileno(), len(BUFFER))


RANGE = range(4000)
SHORT_RANGE = range(4000)
FEW = range(64)
FILE = tempfile.TemporaryFile()
FILE.write(BUFFER)
FILE.flush()


def main():
    kinds = [globals()[name] for name in sys.argv[2:]]
    used = {kind: 0.0 for kind in kinds}
    end = time.time() + float(sys.argv[1])
    sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    while time.time() < end:
        kind = min(kinds, key=used.get)
        before = cpu_s()
        kind()
        used[kind] += cpu_s() - before
    told = dict((kind.__name__, used[kind]) for kind in kinds)
    sys.stdout.write(json.dumps({"cpu_s": told}) + "\n")


main()
