# -*- coding: utf-8 -*-
"""Threads that stand still, each in a read that never returns, reached through one feature of the language each.

    stops.py [--depth N] [--only ROUTE]

The first line on stdout is a JSON object: {"pid", "version", "stacks": [{"route", "tid", "interpreter", "frames"}]}.
Frames are as in walk.py, root first, and come from inside: every thread walks its own frames in the line in which it
then blocks. A thread in which a subinterpreter runs has two stacks. With --depth there is a thread more, that many
calls deep. The main thread ends the process when its stdin closes. Python 2.7 and 3.
"""
import argparse
import json
import os
import sys
import threading

from walk import native_thread_id, record

NEVER, _ = os.pipe()  # nobody writes to it
REPORTS, REPORT = os.pipe()
here = threading.local()  # the route and the TID of a thread


def stop(_=None):
    record(here.route, REPORT, here.tid); os.read(NEVER, 1)


def recursion(n=20):
    if n == 0:
        return stop()
    return recursion(n - 1)


def mutual_recursion(n=7):
    def even(n):
        return odd(n - 1) if n else stop()

    def odd(n):
        return even(n - 1) if n else stop()

    return even(n)


def generator():
    def inner():
        yield 1
        stop()
        yield 2

    def outer():
        for value in inner():
            yield value

    for _ in outer():
        pass


def generator_send():
    def accepts():
        value = yield
        stop(value)
        yield

    running = accepts()
    next(running)
    running.send(1)


def generator_close():
    def closes():
        try:
            yield
        finally:
            stop()

    running = closes()
    next(running)
    running.close()


def a_lambda():
    call = lambda f: f()
    (lambda: call(lambda: stop()))()


def an_exec():
    exec(compile("def defined():\n    pass; stop()\n\ndefined()\n", "<a string>", "exec"), {"stop": stop})


def an_eval():
    eval("(lambda: [stop()][0])()", {"stop": stop})


def class_body():
    class Outer(object):
        class Inner(object):
            stopped = stop()


def nested_init():
    class Outer(object):
        class Inner(object):
            def __init__(self):
                self.stopped = stop()

        def __init__(self):
            self.inner = Outer.Inner()

    class Derived(Outer):
        def __init__(self):
            super(Derived, self).__init__()

    Derived()


def decorators():
    def decorator(function):
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @decorator
    @decorator
    def decorated(*args, **kwargs):
        return stop()

    decorated(1, key=2)


def decorator_runs():
    def decorator(function):
        return stop()

    @decorator
    def decorated():
        pass


def comprehension():
    [[stop() for _ in range(1)] for _ in range(1)]


def generator_expression():
    any(stop() for _ in range(1))


def dict_comprehension():
    {key: {stop() for _ in range(1)} for key in range(1)}


def a_property():
    class Holder(object):
        @property
        def held(self):
            return stop()

        @staticmethod
        def static():
            return Holder().held

        @classmethod
        def of_class(cls):
            return cls.static()

    Holder.of_class()


def context_manager():
    from contextlib import contextmanager

    @contextmanager
    def managed():
        stop()
        yield

    with managed():
        pass


def with_exit():
    class Manager(object):
        def __enter__(self):
            return self

        def __exit__(self, *exception):
            stop()

    with Manager():
        1 + 1


def through_c():
    sorted([1, 2], key=lambda x: list(map(stop, [x])))


def operators():
    class Number(object):
        def __add__(self, other):
            return self[other]

        def __getitem__(self, key):
            return str(self)

        def __str__(self):
            stop()

    Number() + 1


def finalizer():
    class Finalized(object):
        def __del__(self):
            stop()

    Finalized()


def while_handling():
    try:
        raise ValueError
    except ValueError:
        try:
            raise KeyError
        finally:
            stop()


def defaults(first=1, second=2, *rest, **named):
    if first == 1:
        return defaults(
            0,
            second=second,
            *rest,
            **{"third": stop}
        )
    return named["third"](
        first
    )


def far_line():
    source = "def far():\n    x = 0\n" + "\n" * 70000 + "    stop()\n" + "\n" * 300 + "far()\n"
    exec(compile(source, "far.py", "exec"), {"stop": stop})


def long_function():
    source = "def long(x):\n" + "    x += 1\n" * 5000 + "    stop()\n    return x\nlong(0)\n"
    exec(compile(source, "long.py", "exec"), {"stop": stop})


def non_ascii_paths():
    """File names of every width that a str has: 1 byte (and not ASCII), 2 bytes, 4 bytes."""
    def enter(names):
        if not names:
            return stop()
        name = names[0] if str is not bytes else names[0].encode("utf-8")
        exec(compile("\nenter(rest)", name, "exec"), {"enter": enter, "rest": names[1:]})

    enter([u"/tmp/\u00e9t\u00e9 caf\u00e9.py", u"/tmp/\u6587\u4ef6.py", u"/tmp/\U0001f9f5 weft.py", u"new\nline;semi.py"])


def long_names():
    name = "n" * 3000
    exec(compile("def %s():\n    stop()\n%s()" % (name, name), "/" + "d" * 250 + "/" + "f" * 250, "exec"), {"stop": stop})


ROUTES = [
    recursion, mutual_recursion, generator, generator_send, generator_close, a_lambda, an_exec, an_eval, class_body,
    nested_init, decorators, decorator_runs, comprehension, generator_expression, dict_comprehension, a_property,
    context_manager, with_exit, through_c, operators, finalizer, while_handling, defaults, far_line, long_function,
    non_ascii_paths, long_names,
]
if sys.version_info[0] >= 3:
    import stops_py3

    ROUTES += stops_py3.routes(stop, here, REPORT, NEVER)


def deep(depth):
    """Count down in Python alone: 3.11 and later need no C stack for it, others the big one that start gives."""
    if depth == 0:
        return stop()
    return deep(depth - 1)


def run(name, route, arguments):
    here.route = name
    here.tid = native_thread_id()
    route(*arguments)


def start(name, route, *arguments):
    thread = threading.Thread(target=run, args=(name, route, arguments), name=name)
    thread.daemon = True
    thread.start()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--only")
    options = parser.parse_args()
    reports = os.fdopen(REPORTS, "rb")
    stacks = []
    for route in ROUTES:
        if options.only in (None, route.__name__):
            start(route.__name__, route)
            stacks += [reports.readline() for _ in range(getattr(route, "stacks", 1))]
    if options.depth:
        sys.setrecursionlimit(options.depth + 1000)
        threading.stack_size(max(1 << 20, min(options.depth << 12, 1 << 30)))  # 4 KiB a call is plenty on 2.7 to 3.10
        start("deep", deep, options.depth)
        stacks.append(reports.readline())
    finish("main", stacks, reports)


def finish(name, stacks, reports):
    """Report the main thread too, from the line in which it blocks."""
    record(name, REPORT, os.getpid()); tell(stacks, reports); os.read(0, 1)
    os._exit(0)


def tell(stacks, reports):
    stacks = [json.loads(line.decode("ascii")) for line in stacks + [reports.readline()]]
    told = {"pid": os.getpid(), "version": list(sys.version_info[:3]), "stacks": stacks}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


main()
