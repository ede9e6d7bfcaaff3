"""Threads that start and end as fast as they can, while shared libraries are loaded and unloaded: churn.py SECONDS

Two threads live as long as it does: one that computes (`stays`), one that loads (`loads`). The last line on stdout is {"threads", "loads"}: how many there were.
Python 2.7 and 3.
"""
import ctypes
import json
import os
import sys
import sysconfig
import threading
import time

END = time.time() + float(sys.argv[1])
counts = {"threads": 0, "loads": 0}


def lives_briefly(n):
    return n if n == 0 else lives_briefly(n - 1)


def stays():
    while time.time() < END:
        sum(range(100))


def libraries():
    """Extension modules of the standard library; Debian's has few, so a few system libraries too."""
    folder = sysconfig.get_config_var("DESTSHARED") or ""
    names = sorted(os.path.join(folder, name) for name in os.listdir(folder)) if os.path.isdir(folder) else []
    return [name for name in names if name.endswith(".so")][:20] + ["libz.so.1", "libbz2.so.1.0", "liblzma.so.5"]


def loads():
    from _ctypes import dlclose

    names = libraries()
    while time.time() < END:
        for name in names:
            try:
                dlclose(ctypes.CDLL(name)._handle)
            except OSError:
                continue  # not on this machine
            counts["loads"] += 1


def start(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    return thread


def main():
    if hasattr(sys, "setswitchinterval"):
        sys.setswitchinterval(1e-4)  # with the usual 5 ms, new threads wait for the GIL more than they run
    sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    longer = [start(stays), start(loads)]
    while time.time() < END:
        brief = [start(lives_briefly, 5) for _ in range(10)]
        for thread in brief:
            thread.join()
        counts["threads"] += len(brief)
    for thread in longer:
        thread.join()
    sys.stdout.write(json.dumps(counts) + "\n")


main()
