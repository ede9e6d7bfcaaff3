"""Blocked for good, with all that a layout can be proven on: three threads in time.sleep(), the main thread reading
stdin, each under a method, a closure and (3.x) a function whose name is not ASCII; with the argument "sub", a
subinterpreter as well, where the version has them. Runs under 2.7 to 3.15.
"""

import json
import os
import sys
import threading
import time

if sys.version_info >= (3,):
    exec(compile(u"def \u0113\u4e2d(wait):\n    wait()\n", "not ascii.py", "exec"))
    through = globals()[u"\u0113\u4e2d"]
else:
    def through(wait):
        wait()

KEPT = []
SLEEPING = []


class Outer(object):
    class Inner(object):
        def method(self, wait):
            for _ in range(1):
                through(wait)


def outer(wait):
    def inner():
        Outer.Inner().method(wait)
    inner()


def subinterpreter():
    for name in "_interpreters", "_xxsubinterpreters":
        try:
            module = __import__(name)
        except ImportError:
            continue
        created = module.create()
        module.run_string(created, "import os")
        KEPT.append(created)  # the last reference to it ends an interpreter
        return int(created)
    return None


def sleep():
    SLEEPING.append(None)
    time.sleep(100000)


def main():
    for _ in range(3000):  # until the interpreter has specialized what it runs
        outer(lambda: None)
    for _ in range(3):
        thread = threading.Thread(target=outer, args=(sleep,))
        thread.daemon = True
        thread.start()
    told = {"pid": os.getpid(), "sub": subinterpreter() if "sub" in sys.argv else None}
    while len(SLEEPING) < 3:
        time.sleep(0.01)

    def read():
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        sys.stdin.read()

    outer(read)


main()
