"""Trying many inputs, each of which is a number, in processes with the limits of a reader (weft/readers.py)."""

from __future__ import annotations

import mmap
import os
import resource
import signal
import struct
import sys
import traceback
from collections import Counter
from collections.abc import Callable

_BATCH = 10_000  # inputs of a process
_MEMORY = 1 << 30
_SECONDS = 20  # of a CPU, for one input
_PLACE = struct.Struct("<q")


def try_all(tries: Callable[[int], None], first: int, last: int) -> Counter[str]:
    """Try the inputs [first, last), and return how many have ended their process, by what ended it.

    SystemExit where one raises.
    """
    ended: Counter[str] = Counter()
    with mmap.mmap(-1, _PLACE.size) as now:
        begin = first
        while begin < last:
            end = min(begin + _BATCH, last)
            child = os.fork()
            if not child:
                _try_in_child(tries, begin, end, now)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            (number,) = _PLACE.unpack(now[:])
            if status > 0:
                sys.exit(f"input {number} fails")
            if status < 0:
                ended[signal.Signals(-status).name] += 1
            begin = number + 1 if status else end
    return ended


def _try_in_child(tries: Callable[[int], None], begin: int, end: int, now: mmap.mmap) -> None:
    words = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a library has to say before it ends its process
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    try:
        for number in range(begin, end):
            now[:] = _PLACE.pack(number)
            signal.setitimer(signal.ITIMER_PROF, _SECONDS)  # SIGPROF ends the process
            tries(number)
    except BaseException:  # whatever it is, it is told
        os.dup2(words, 2)
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
