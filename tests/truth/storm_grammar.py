"""Which stacks of tests/targets/storm.py are legal.

`violation(stack)` says what is wrong with one, "" for nothing; `legal(stack)` is the same as a bool. A stack is a list
of (function, line), root first; the function is the qualified name where the Python has one (3.11 on), else the name.
Only stacks from after the target's ready line and before its last one are decidable.

What cannot be seen in one stack alone: innermost frames that are missing, where the one that is left stands in a line
that calls; and more of the same turn later in the same lines.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

_TARGETS = Path(__file__).resolve().parent.parent / "targets"
sys.path.insert(0, str(_TARGETS))
import storm_tree  # noqa: E402

sys.path.remove(str(_TARGETS))

Frame = tuple[str, int]

_TREE = storm_tree.build()


def _line_with(text: str) -> int:
    """The one line of storm.py that holds this text."""
    lines = (_TARGETS / "storm.py").read_text().splitlines()
    (line,) = [number for number, content in enumerate(lines, 1) if text in content]
    return line


_READY = _line_with('sys.stdout.write(json.dumps({"pid"')
_CALL = _line_with("turns = storm()")
_STORM = range(_line_with("def storm():"), _line_with("return turns") + 1)
_RUN = _line_with('TREE["root"](1000)')
_BOOTSTRAP = ("_bootstrap", "_bootstrap_inner", "run")  # of threading.py; __bootstrap in 2.7


def legal(stack: Sequence[Frame]) -> bool:
    """Whether the storm can stand so."""
    return not violation(stack)


def violation(stack: Sequence[Frame]) -> str:
    """What is wrong with the stack: one line, or "" where it is legal."""
    if not stack:
        return "empty"
    start = _root(stack)
    if isinstance(start, str):
        return start
    tree = stack[start:]
    if not tree:
        return ""
    return _names(tree) or _calls(tree) or _repeats(tree)


def _root(stack: Sequence[Frame]) -> int | str:
    """How many frames come before the tree's own, or what is wrong with them."""
    if stack[0][0] == "<module>":
        line = stack[0][1]
        if len(stack) == 1:
            return 1 if _READY <= line <= _CALL else f"root in line {line}"
        before = 1
        if line != _CALL:
            return f"root calls storm in line {line}, not {_CALL}"
    else:
        before = len(_BOOTSTRAP)
        names = [name.replace("Thread.", "").replace("__boot", "_boot") for name, _ in stack[:before]]
        if tuple(names) != _BOOTSTRAP[: len(names)]:
            return f"root is {names}"
    if len(stack) <= before:
        return before
    name, line = stack[before]
    if name != "storm":
        return f"{name} where storm belongs"
    if len(stack) == before + 1:
        return before + 1 if line in _STORM else f"storm in line {line}"
    return before + 1 if line == _RUN else f"storm runs the tree in line {line}, not {_RUN}"


def _names(tree: Sequence[Frame]) -> str:
    """Every line lies in the function that is said to run it, and the first is of root."""
    for name, line in tree:
        if name not in _TREE.names.get(_TREE.owner.get(line), ()):
            return f"{name} has no line {line}"
    return "" if _TREE.owner[tree[0][1]] == _TREE.root else f"{tree[0][0]} at the root of the tree"


def _calls(tree: Sequence[Frame]) -> str:
    """Every frame stands in the line that calls the next one."""
    for (caller, line), (name, inside) in itertools.pairwise(tree):
        if _TREE.callee.get(line) != _TREE.owner[inside]:
            return f"{caller} does not call {name} in line {line}"
    return ""


def _repeats(tree: Sequence[Frame]) -> str:
    """A recursive function calls itself a fixed number of times, and only then goes on."""
    lines = [line for _, line in tree]
    for first, run in itertools.groupby(lines, key=_TREE.owner.__getitem__):
        if first in _TREE.repeats:
            *callers, last = run
            frames, itself = _TREE.repeats[first], first + 2  # after the def and the if
            innermost = len(callers) == frames - 1
            if len(callers) >= frames or (last == itself if innermost else last > itself):
                return f"{len(callers) + 1} frames of {_TREE.names[first][0]}, in line {last}"
    return ""
