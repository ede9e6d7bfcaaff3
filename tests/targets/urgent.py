"""A program that has its own use for SIGURG, the signal by which weft's ticks stop threads: urgent.py SECONDS HOW

HOW is "handled" (by a handler), "blocked" (in the thread that computes, which looks at what is pending in the end) or
"late" (by a handler that is set while it is recorded). The last line on stdout is {"seen": how many signals it had}.
"blocked" needs Python 3, the rest runs on 2.7 too.
"""
import json
import os
import signal
import sys
import time


def compute(seconds):
    end = time.time() + seconds
    while time.time() < end:
        sum(range(1000))


def main():
    seconds, how = float(sys.argv[1]), sys.argv[2]
    seen = []
    if how == "handled":
        signal.signal(signal.SIGURG, lambda *_: seen.append(1))
    elif how == "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    compute(seconds / 2)
    if how == "late":
        signal.signal(signal.SIGURG, lambda *_: seen.append(1))
    compute(seconds / 2)
    if how == "blocked" and signal.SIGURG in signal.sigpending():
        seen.append(1)
    sys.stdout.write(json.dumps({"seen": len(seen)}) + "\n")


main()
