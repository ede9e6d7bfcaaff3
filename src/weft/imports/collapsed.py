"""Collapsed stacks: a line a stack, root first, `;` between frames, a count at the end."""

from __future__ import annotations

import re
from functools import lru_cache

from weft.errors import ImportedFileError
from weft.imports.writing import NOMINAL_HZ, SECOND, ImportWriter, frame_of
from weft.profile.names import NO_FRAME, escape
from weft.sample import KERNEL, Frame

_PLACE = re.compile(r"(.+) \(([^()]+?)(?::(\d{1,9}))?\)", re.DOTALL)  # function (file.py:12), function (library.so)
_KERNEL = re.compile(r"(.+?)(?: \[k\]|_\[k\])", re.DOTALL)  # as weft writes it, and as stackcollapse-perf.pl does


def read(data: bytes, writer: ImportWriter) -> None:
    """Adds all lines, as one thread."""
    writer.describe(rate_hz=None, timed=False, made_up=True)
    thread = writer.thread("")
    found = False
    for number, line in enumerate(data.decode("utf-8", "backslashreplace").split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip() or line.startswith("# "):
            continue
        names, _, count = line.rpartition(" ")
        if not (count.isascii() and count.isdecimal() and len(count) < 18):
            raise ImportedFileError(f"line {number} does not end with a count: {escape(line[-60:])!r}")
        stack = 0
        for name in names.split(";") if names not in ("", NO_FRAME) else ():  # py-spy writes some without a frame
            stack = writer.stack(stack, _frame(name))
        writer.run(thread, stack, int(count) * (SECOND // NOMINAL_HZ), int(count))
        found = True
    if not found:
        raise ImportedFileError("it has no stack")


@lru_cache(maxsize=1 << 16)
def _frame(label: str) -> Frame:
    if kernel := _KERNEL.fullmatch(label):
        return frame_of(kernel[1], KERNEL, 0)
    if place := _PLACE.fullmatch(label):
        return frame_of(place[1], place[2], int(place[3] or 0))
    return frame_of(label, "", 0)
