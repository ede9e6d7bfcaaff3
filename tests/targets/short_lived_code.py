"""Functions that are made, called once and thrown away, so that others' code objects and names come to lie where theirs were:

    short_lived_code.py SECONDS

even() calls those named even_K, odd() those named odd_K. Half of them are made of `template`, with another name; the others are
compiled, from the file even_K.py or odd_K.py, and have their first line behind K empty ones. Python 2.7 and 3.
"""
import json
import os
import sys
import time

NAMES = 50


def template(turns):
    for _ in range(turns):
        pass


CODE = template.__code__
FUNCTION = type(template)


def renamed(name):
    if hasattr(CODE, "replace"):
        qualified = {"co_qualname": name} if hasattr(CODE, "co_qualname") else {}
        return FUNCTION(CODE.replace(co_name=name, **qualified), globals())
    fields = ["argcount", "kwonlyargcount", "nlocals", "stacksize", "flags", "code", "consts", "names", "varnames"]
    fields += ["filename", "name", "firstlineno", "lnotab", "freevars", "cellvars"]
    values = [getattr(CODE, "co_" + field) for field in fields if hasattr(CODE, "co_" + field)]
    values[values.index("template")] = name
    return FUNCTION(type(CODE)(*values), globals())


def compiled(name, number):
    source = "\n" * number + "def %s(turns):\n    for _ in range(turns):\n        pass\n" % name
    made = {}
    exec(compile(source, name + ".py", "exec"), made)
    return made[name]


def even(number):
    renamed("even_%d" % number)(100)
    compiled("even_%d" % number, number)(1000)


def odd(number):
    renamed("odd_%d" % number)(100)
    compiled("odd_%d" % number, number)(1000)


END = time.time() + float(sys.argv[1])
sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
sys.stdout.flush()
while time.time() < END:
    for each in range(NAMES):
        even(each)
        odd(each)
