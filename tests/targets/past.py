"""Its thread state names frames that have ended, while it holds the GIL, and computes: past.py LIBRARY DEPTH

LIBRARY is made of corrupts.c; so many frames are linked. The state is as it was whenever Python runs. Ends after a while.
Python 2.7 to 3.10.
"""

import ctypes
import sys
import time

try:
    from thread import start_new_thread
except ImportError:
    from _thread import start_new_thread

END = time.time() + 200
ended = []
library = ctypes.PyDLL(sys.argv[1])  # calls keep the GIL
library.replace.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int]
ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p


def past(depth):
    if depth > 1:
        past(depth - 1)
    else:
        ended.append(sys._getframe())  # its callers stay linked to it


def word_of_frame():
    """The address of the word of the thread state that names the frame that runs."""
    begin = ctypes.pythonapi.PyThreadState_Get()
    words = ctypes.cast(begin, ctypes.POINTER(ctypes.c_uint64))
    index = 0
    while words[index] != id(sys._getframe()):
        index += 1
    return begin + 8 * index


def inner(word):
    library.replace(word, id(sys._getframe()), 5)
    library.replace(word, at, 5)  # the frame itself would be in the eval loop's hands


def outer(word):
    while time.time() < END:
        inner(word)


def main():
    outer(word_of_frame())


start_new_thread(past, (int(sys.argv[2]),))
while not ended:
    time.sleep(0.01)
time.sleep(0.2)  # it has ended
at = id(ended[0])
sys.stdout.write("{}\n")
sys.stdout.flush()
main()
