"""Every stack that the tree of storm.py can have, told from inside: by a trace function, at every line of one turn.

The first line on stdout is {"stacks": [[[name, line], ...], ...]}, root first, without what runs the tree. Python 2.7
and 3.
"""
import json
import sys

import storm_tree

stacks = set()


def trace(frame, event, _):
    stack = []
    while frame.f_code.co_filename == "tree":
        code = frame.f_code
        stack.append((getattr(code, "co_qualname", code.co_name), frame.f_lineno))
        frame = frame.f_back
    stacks.add(tuple(reversed(stack)))
    return trace


tree = {}
exec(compile(storm_tree.build().source(), "tree", "exec"), tree)
sys.settrace(trace)
tree["root"](1)
sys.settrace(None)
sys.stdout.write(json.dumps({"stacks": sorted(filter(None, stacks))}) + "\n")
