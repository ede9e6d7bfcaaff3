"""Run inside each interpreter: compiles modules of its library and nasty sources, and prints for each code object its
line table and what the interpreter itself says about every offset, as one line of JSON.

Lines come from PyCode_Addr2Line, the function behind tracebacks; columns from co_positions(), where there is that.
Runs under 2.7 to 3.15.
"""

from __future__ import unicode_literals

import ctypes
import io
import json
import os
import sys
import types

MODULES = "abc ast base64 bisect calendar cmd codecs collections/__init__ contextlib copy csv datetime decimal difflib"
MODULES += " dis doctest enum fractions functools gettext heapq imaplib inspect json/decoder locale mailbox ntpath"
MODULES += " optparse os pdb pickle platform random re shlex socket string subprocess tarfile textwrap threading"
MODULES += " tokenize traceback turtle typing unittest/case uuid warnings weakref zipfile"

NASTY = [
    "x = 1\n",
    "\n" * 5000 + "x = 1\ny = 2\n",
    "def f(a):\n    b = a\n" + "\n" * 130 + "    c = b\n" + "\n" * 300 + "    return b(\n" + "\n" * 70000 + "c)\n",
    # A call ends on an earlier line than its arguments: steps back, longer than a signed byte.
    "f(\n" + "\n" * 200 + "  g(1),\n" + "\n" * 200 + "  h(2))(3)\nz = 1\n",
    "x = [" + ", ".join("f%d(%d)" % (i, i) for i in range(400)) + "]\n",
    "x = " + "(" * 40 + "a" + " + 1)" * 40 + "\n" + " " * 0 + "y = x\n",
    "if 1:\n" + " " * 300 + "x = y + z(a,   b)\n",
    "x = '\u00e9\u4e2d\U0001f600' + f('\u00e9', g)\n",
    "@a\n@b(\n  1,\n  2)\ndef f(x=c(),\n      y=d()):\n    'doc'\n    return x\n\n@d\nclass C(B,\n        metaclass(M)):\n"
    "    a = 1\n    def m(self): return self\n",
    "def g():\n    try:\n        yield a\n    except E as e:\n        raise F(e)\n    finally:\n        h()\n    while x:\n"
    "        for i in y:\n            if i: continue\n            else: break\n        else:\n            with z() as w:\n"
    "                return\n",
    "x = (lambda a: a if b\n     else c)(d\n  )\ny = [i\n for i in z\n if i]\n",
    "x = {\n" + "".join("  %d: f(%d),\n" % (i, i) for i in range(300)) + "}\n",
    "\n".join("x%d = f(%d)" % (i, i) for i in range(2000)) + "\n",
    "f()" + ";g()" * 600 + "\n",
]
if sys.version_info >= (3, 6):
    NASTY += [
        "async def f():\n    async with a as b, c as d:\n        async for i in j: await k\n    return [x async for x in y]\n",
        "x = f'{a}{b!r:>{w}} {f(1)}'\n",
    ]
if sys.version_info >= (3, 10):
    NASTY += [
        "match x:\n    case [a, *b] if c: d()\n    case {'k': v, **r}: e()\n    case P(q=1): pass\n    case _: h()\n"
    ]
if sys.version_info >= (3, 12):
    NASTY += ["def f[T](x: T) -> T: return x\ntype A[X] = list[X]\nx = [y for y in z if (w := y)]\n"]


def sources():
    folder = os.path.dirname(os.__file__)
    for name in MODULES.split():
        path = os.path.join(folder, *(name + ".py").split("/"))
        if os.path.exists(path):
            with io.open(path, "rb") as file:
                yield file.read(), name
    for index, text in enumerate(NASTY):
        yield (b"\xef\xbb\xbf" if sys.version_info < (3,) else b"") + text.encode("utf-8"), "nasty %d" % index


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for inner in codes(constant):
                yield inner


def main():
    line_of = ctypes.pythonapi.PyCode_Addr2Line
    line_of.argtypes = [ctypes.py_object, ctypes.c_int]
    line_of.restype = ctypes.c_int
    step = 2 if sys.version_info >= (3, 6) else 1
    told = []
    for source, name in sources():
        for code in codes(compile(source, name, "exec", dont_inherit=True)):
            size = len(code.co_code)
            table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
            told.append(
                {
                    "source": name,
                    "name": code.co_name,
                    "first": code.co_firstlineno,
                    "table": "".join("%02x" % byte for byte in bytearray(table)),
                    "size": size,
                    "lines": [line_of(code, at) for at in range(0, size, step)],
                    "positions": list(code.co_positions()) if sys.version_info >= (3, 11) else None,
                }
            )
    json.dump({"version": sys.hexversion, "step": step, "codes": told}, sys.stdout)


main()
