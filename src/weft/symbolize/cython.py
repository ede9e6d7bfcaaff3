"""Cython: what it calls its functions in C, and which line of the .pyx file a line of its C file comes from.

Names as Cython.Compiler.Naming and Symtab make them, in 0.29 and 3.x: a prefix that tells the kind of function, the
scopes that it is in, each with the length of its name before it, and the name, before which stands a number where there
are several of its kind.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from weft.sample import NO_FLAGS, Frame, FrameFlag, FrameKind
from weft.target.opening import open_file

_NAME = re.compile(r"(?:__pyx_fuse_\d+)?__pyx_(pw|pf|f|gb)_(\d+\w+)(?:\.\w+)*")
_FUSED = re.compile(r"__pyx_fuse_\d+")
_SCOPE = re.compile(r"(\d+)(\w+)")
_UTILITY = re.compile(r"__(?:Pyx|pyx_FusedFunction|pyx_CyFunction)_\w+(?:\.\w+)*")
_COMMENT = re.compile(r'\s*/\* "([^"]+)":(\d+)$')
_MARKED = re.compile(r" \* .*\bdef\s+(\w+)\s*\(.*<{10,}$")
_RUNTIME = "/* --- Runtime support code --- */"
_MAX_SOURCE = 64 << 20  # bytes of a C file

_WRAPPER, _GENERATOR = "pw", "gb"


def decode(symbol: str) -> tuple[str, str] | None:
    """Return what kind of function a symbol is, and its qualified name; None if it is none of Cython's."""
    match = _NAME.fullmatch(symbol)
    if match is None:
        return None
    kind, rest = match[1], _FUSED.sub("", match[2])
    scopes = []
    while scope := _SCOPE.fullmatch(rest):
        length, text = int(scope[1]), scope[2]
        # Else these digits are the number of the function itself. Wrappers always have one.
        if len(text) <= length + 1 or text[length] != "_" or (kind == _WRAPPER and not text[length + 1].isdigit()):
            break
        scopes.append(text[:length])
        rest = text[length + 1 :]
    return kind, ".".join([*scopes, rest.lstrip("0123456789") or rest])


class CythonFile:
    """A C file that Cython has made."""

    def __init__(self, text: str) -> None:
        """Note the comments that name lines of .pyx files."""
        self._lines: list[int] = []
        self._places: list[tuple[str, int]] = []
        self._names: dict[tuple[str, int], str] = {}  # of functions that begin at a line
        for number, line in enumerate(text.splitlines(), 1):
            if _RUNTIME in line:
                self._note(number, ("", 0))  # from here on the code is Cython's own
                break
            if match := _COMMENT.match(line):
                self._note(number, (match[1], int(match[2])))
            elif self._places and (match := _MARKED.match(line)):
                self._names.setdefault(self._places[-1], match[1])

    def _note(self, number: int, place: tuple[str, int]) -> None:
        self._lines.append(number)
        self._places.append(place)

    def place(self, line: int) -> tuple[str, int] | None:
        """Return the .pyx file and its line that a line of C comes from; None if it comes from none."""
        at = bisect_right(self._lines, line) - 1
        return self._places[at] if at >= 0 and self._places[at][0] else None

    def function(self, line: int) -> str | None:
        """Return the name of the last `def` at or before a line of C."""
        for at in range(bisect_right(self._lines, line) - 1, -1, -1):
            if name := self._names.get(self._places[at]):
                return name
        return None


class CythonModule:
    """Turns the functions of one module into those of its .pyx file."""

    def __init__(self, path: str) -> None:
        """`path`: of the module, as we reach it; its C file may lie beside it."""
        self._folder = Path(path).parent
        self._files: dict[str, CythonFile | None] = {}

    def __call__(self, frames: Sequence[Frame]) -> list[Frame]:
        """Return the functions at one address, outermost first, with a wrapper and its body as one."""
        found: list[Frame] = []
        for frame in frames:
            told = self._frame(frame)
            # The body, inlined into its wrapper: one function, at the body's line.
            if found and told.kind is FrameKind.CYTHON and found[-1].function == told.function:
                wrapper = found.pop()
                told = told if told.line else wrapper._replace(flags=told.flags)
            found.append(told)
        return found

    def _frame(self, frame: Frame) -> Frame:
        if _UTILITY.fullmatch(frame.function):
            return frame._replace(flags=frame.flags | FrameFlag.MACHINERY)
        decoded = decode(frame.function)
        if decoded is None:
            return frame
        kind, name = decoded
        flags = FrameFlag.WRAPPER if kind == _WRAPPER else NO_FLAGS
        file, line = frame.file, frame.line
        if line and not file.endswith((".pyx", ".pxd", ".py")):
            source = self._file(file)
            place = source.place(line) if source else None
            if source and kind == _GENERATOR and (function := source.function(line)):
                name = f"{name.rpartition('.')[0]}.{function}"
            file, line = place or (frame.module, 0)
        return Frame(FrameKind.CYTHON, name, file, line, flags=flags, module=frame.module)

    def _file(self, path: str) -> CythonFile | None:
        """Return the C file at the path that it had when it was compiled, or beside the module."""
        if path not in self._files:
            self._files[path] = next(
                (CythonFile(text) for place in (Path(path), self._folder / Path(path).name) if (text := _read(place))),
                None,
            )
        return self._files[path]


def _read(path: Path) -> str:
    """Return a C file that Cython has made; "" if this is none."""
    try:
        with os.fdopen(open_file(str(path)), "rb") as file:  # debug information may name anything
            if not file.read(64).startswith(b"/* Generated by Cython"):
                return ""
            file.seek(0)
            return file.read(_MAX_SOURCE).decode("utf-8", "replace")
    except (OSError, ValueError):  # ValueError: a NUL in its name
        return ""
