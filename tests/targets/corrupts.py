"""Overwrites its own thread state while it holds the GIL, and computes: corrupts.py LIBRARY SEED

LIBRARY is made of corrupts.c. The state is as it was whenever Python runs. Ends after a while. Python 2.7 and 3.
"""

import ctypes
import sys
import time

END = time.time() + 200
WORDS = 40  # of a thread state: all that leads to its frames
library = ctypes.PyDLL(sys.argv[1])  # calls keep the GIL
library.corrupt.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint64]
ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
seed = int(sys.argv[2])


def inner():
    library.corrupt(ctypes.pythonapi.PyThreadState_Get(), WORDS, 5, seed)


def outer():
    global seed
    while time.time() < END:
        seed += 1
        inner()


sys.stdout.write("{}\n")
sys.stdout.flush()
outer()
