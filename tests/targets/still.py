# -*- coding: utf-8 -*-
"""The program that the snapshots are of: everything a walk can meet, in little, and blocked for good.

Four threads: in a recursion, in generators, under names of every width that a str has, and, where the version has
them, in a subinterpreter. The main thread reads stdin. Writes one line when all of them stand still. Python 2.7 and 3.
"""

import os
import sys
import threading

NEVER, _ = os.pipe()  # nobody writes to it
ABOUT, STANDS = os.pipe()


def stop():
    os.write(STANDS, b".")
    os.read(NEVER, 1)


def recursion(n=12):
    return recursion(n - 1) if n else stop()


def generators():
    def inner():
        yield [stop() for _ in range(1)]

    def outer():
        for value in inner():
            yield value

    list(outer())


def names():
    source = "def {0}(rest):\n    enter(rest)\n{0}(rest)"

    def enter(rest):
        if not rest:
            return stop()
        name, file = rest[0]
        if sys.version_info[0] == 2:
            name, file = "ascii", file.encode("utf-8")
        exec(compile(source.format(name), file, "exec"), {"enter": enter, "rest": rest[1:]})

    enter(
        [
            ("\u00e9t\u00e9", "/tmp/caf\u00e9.py"),
            ("\u6587", "/tmp/\u6587\u4ef6.py"),
            ("\U00020000", "/tmp/\U0001f9f5.py"),
        ]
    )


class Made(object):
    def __init__(self):
        sorted([1, 2], key=lambda x: stop())


def subinterpreter():
    code = "import os\ndef inside():\n    os.write(%d, b'.'); os.read(%d, 1)\ninside()" % (STANDS, NEVER)
    for module in "_interpreters", "_xxsubinterpreters":
        try:
            module = __import__(module)
        except ImportError:
            continue
        return module.run_string(module.create(), code)
    return Made()


for route in recursion, generators, names, subinterpreter:
    thread = threading.Thread(target=route)
    thread.daemon = True
    thread.start()
    os.read(ABOUT, 1)
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.read()
os._exit(0)
