"""The routes of stops.py that take Python 3: coroutines, names in other scripts, subinterpreters. See there."""
import asyncio
import functools
import importlib
import os
import sys
import textwrap

SUBINTERPRETER = """
import sys
sys.path.insert(0, {here!r})
import os
from walk import record
class Inside:
    def method(self):
        record("subinterpreter", {report}, {tid}, 1); os.read({never}, 1)
def function():
    (lambda: Inside().method())()
function()
"""


def subinterpreters():
    """The module that makes subinterpreters; None where this build has none."""
    since = [((3, 13), "_interpreters"), ((3, 8), "_xxsubinterpreters"), ((3, 0), "_testcapi")]
    try:
        return importlib.import_module(next(name for version, name in since if sys.version_info >= version))
    except ImportError:
        return None


def in_subinterpreter(module, code):
    """What runs a string in a new subinterpreter, without a frame of its own.

    To be made by the thread that calls it: up to 3.12 the thread state of a subinterpreter names its maker for good.
    """
    if module.__name__ == "_testcapi":
        return functools.partial(module.run_in_subinterp, code)
    run = module.exec if module.__name__ == "_interpreters" else module.run_string
    return functools.partial(run, module.create(), code)


def routes(stop, here, report, never):
    """Give the routes; `stop` blocks the calling thread, the rest is for a stop in a subinterpreter."""
    from walk import record

    def yield_from():
        def innermost():
            yield stop()

        def middle():
            yield from innermost()

        def outermost():
            return (yield from middle())

        list(outermost())

    def coroutines():
        async def innermost():
            stop()

        class Awaitable:
            def __await__(self):
                yield from innermost().__await__()

        async def outermost():
            await Awaitable()

        outermost().send(None)

    def asyncio_tasks():
        async def leaf():
            await asyncio.sleep(0)
            stop()

        async def gathered():
            await asyncio.gather(leaf())

        loop = asyncio.new_event_loop()
        loop.run_until_complete(gathered())

    def async_generator():
        async def numbers():
            yield 1
            stop()
            yield 2

        class Manager:
            async def __aenter__(self):
                return [number async for number in numbers()]

            async def __aexit__(self, *exception):
                pass

        async def consumer():
            async with Manager():
                pass

        consumer().send(None)

    def non_ascii_names():
        """Identifiers of every width that a str has: 1 byte (and not ASCII), 2 bytes, 4 bytes."""
        def été():
            def 文():
                class 𠀀:
                    def 𠀁(self):
                        stop()

                𠀀().𠀁()

            文()

        été()

    def qualified_names():
        class Outer:
            class Inner:
                @staticmethod
                def method():
                    def local():
                        (lambda: stop())()

                    local()

        Outer.Inner.method()

    def metaclass():
        class Meta(type):
            def __new__(cls, name, bases, namespace):
                return super().__new__(cls, name, bases, namespace)

            def __init__(cls, name, bases, namespace):
                super().__init__(name, bases, namespace)
                cls.made = cls()

            def __call__(cls, *args):
                return super().__call__(*args)

        class Made(metaclass=Meta):
            def __init__(self):
                stop()

    def slots_and_keywords():
        def outer(a, *, b, **rest):
            return inner(*rest.values(), b=b)

        def inner(*args, b):
            for arg in args:
                arg()

        outer(1, b=2, c=stop)

    def an_import():
        """The import system's own frames, from frozen code and from a path hook."""
        import importlib.abc
        import importlib.util

        class Loader(importlib.abc.Loader):
            def create_module(self, spec):
                return None

            def exec_module(self, module):
                stop()

        class Finder(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                return importlib.util.spec_from_loader(name, Loader()) if name == "never_there" else None

        sys.meta_path.insert(0, Finder())
        import never_there

    def subinterpreter():
        code = SUBINTERPRETER.format(here=os.path.dirname(os.path.abspath(__file__)), report=report, tid=here.tid, never=never)
        run = in_subinterpreter(module, code)
        record("around_subinterpreter", report, here.tid); run()

    found = [
        yield_from, coroutines, asyncio_tasks, async_generator, non_ascii_names, qualified_names, metaclass,
        slots_and_keywords,
    ]
    module = subinterpreters()
    if module is not None:
        subinterpreter.stacks = 2
        found.append(subinterpreter)
    return found + [an_import]  # it holds the lock of its module for good, so it comes last
