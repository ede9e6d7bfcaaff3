"""Computes at the module's level; once its input ends, its thread state does not name its thread any more. Python 2.7 and 3.

Nothing that computes looks at that name. Ends after a while.
"""

import ctypes
import sys
import threading
import time

WORDS = 64  # of a thread state: the name is among them
END = time.time() + 200
ident = getattr(threading, "get_ident", None) or threading._get_ident
ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
words = (ctypes.c_uint64 * WORDS).from_address(ctypes.pythonapi.PyThreadState_Get())
name = list(words).index(ident())


def hide():
    sys.stdin.read()
    words[name] = 0


threading.Thread(target=hide).start()
sys.stdout.write("{}\n")
sys.stdout.flush()
number = 0
while number >= 0:
    number += 1
    if number % 10000000 == 0 and time.time() > END:
        break
