"""A thread that Python did not make calls it again and again: `foreign.py LIBRARY`, which is made of foreign.c.

PyGILState_Ensure gives it a new thread state for each call, and others take the place of the last one. Ends after a while.
Python 2.7 and 3.
"""
import ctypes
import sys
import threading
import time

END = time.time() + 200
others = []


def called():
    end = time.time() + 0.02
    while time.time() < end:
        sum(range(100))


def other():
    time.sleep(0.05)


callback = ctypes.CFUNCTYPE(None)(called)
library = ctypes.CDLL(sys.argv[1])
threading.Thread(target=other).start()  # up to 3.6 there is no GIL before the first thread
assert library.start(callback) == 0
print("{}")
sys.stdout.flush()
while time.time() < END:
    others.append(threading.Thread(target=other))
    others[-1].start()
    del others[:-20]
    time.sleep(0.007)
