"""Python and C that call each other, down to a read that never returns: stacked.py KIND FOLDER

FOLDER is where packages of this interpreter lie. The first line on stdout is {"tid": the kernel's number of the thread
that reads}.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

sys.path[:0] = sys.argv[2:]
never, _ = os.pipe()  # nobody writes to it


def leaf(*_: object) -> int:
    print(json.dumps({"tid": threading.get_native_id()}), flush=True)
    os.read(never, 1)
    return 0


def callee(*arguments: object) -> int:
    return leaf(*arguments)


def through_sorted() -> None:
    sorted([2, 1], key=callee)


def through_ctypes() -> None:
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(callee)
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(2, 1), 2, 4, compare)


def through_numpy() -> None:
    import numpy as np

    np.frompyfunc(callee, 1, 1)(np.arange(3))


def through_re() -> None:
    re.sub("a", lambda match: str(callee(match)), "banana")


def through_pool() -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(callee, [1]))


def through_greenlet() -> None:
    from greenlet import greenlet

    greenlet(callee).switch()


def through_cython() -> None:
    import fixture

    fixture.Shape(lambda n: fixture.plain(callee, n)).method(1)


def through_weakref() -> None:
    class Held:
        pass

    held = Held()
    kept = weakref.ref(held, callee)
    del held
    print(kept)


def through_all() -> None:
    functools.reduce(lambda _, item: sorted([item], key=lambda x: max([x], key=callee)), [1, 2])


globals()[f"through_{sys.argv[1]}"]()
