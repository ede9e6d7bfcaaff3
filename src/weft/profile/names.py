"""How names from a target are shown: short, and harmless wherever they land."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from weft.capture import Process, Thread
from weft.sample import KERNEL, Frame, FrameKind, State

NO_FRAME = "[no Python frame]"  # stands for the empty stack
ELIDED_FRAMES = "[frames left out]"  # stands for the middle of a stack that is too deep to show
STATES = {
    State.RUNNING: "running",
    State.RUNNABLE: "ready",
    State.GIL: "GIL wait",
    State.LOCK: "lock",
    State.IO: "I/O",
    State.SLEEPING: "sleeping",
    State.BLOCKED: "blocked",
}

_NAMES = 4  # of processes, in the name of a recording
_LIBRARY = re.compile(r".*/(?:site-packages|dist-packages|lib(?:64)?/python\d+(?:\.\d+)?t?)/(?=.)", re.DOTALL)


def escape(text: str) -> str:
    """Text on one line that cannot steer a terminal: \\x1b, \\u202e and the like in place of what could."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape_one(char) for char in text)


def escape_one(char: str) -> str:
    """One character as its escape."""
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


@lru_cache(maxsize=1 << 16)
def short_file(path: str) -> str:
    """The part below site-packages, dist-packages or lib/pythonX.Y if the file is in one, else its base name."""
    if path.startswith("<"):  # <string>, <frozen importlib._bootstrap>
        return path
    short, found = _LIBRARY.subn("", path, count=1)
    return short if found else path.rstrip("/").rpartition("/")[2] or path


def frame_label(frame: Frame) -> str:
    """A frame as one line: function (file.py:LINE), function (library.so) where no line is known, or function [k]."""
    if frame.kind is FrameKind.KERNEL:
        return frame.function if frame.function == KERNEL else f"{escape(frame.function)} [k]"
    if not frame.file:
        return escape(frame.function)
    file = escape(short_file(frame.file))
    place = f"{file}:{frame.line}" if frame.line > 0 else file
    return f"{escape(frame.function)} ({place})"


def process_name(process: Process) -> str:
    """What a process runs, in a word: the script or module that Python runs, else the program."""
    program, *arguments = process.command or (f"process {process.pid}",)
    name = program.rpartition("/")[2]
    if name.startswith("python"):
        name = _script(arguments) or name
    return escape(name.rpartition("/")[2])


def recording_name(processes: Iterable[Process]) -> str:
    """What a recording is of: the names of its processes, or of some of them."""
    names = list(dict.fromkeys(process_name(process) for process in processes))
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def _script(arguments: Sequence[str]) -> str:
    """The script or module among Python's arguments; "" if it runs neither."""
    words = iter(arguments)
    for word in words:
        if word == "-m":
            return next(words, "")
        if word in ("-X", "-W", "-Q"):  # its options that take a value, -Q in 2.7
            next(words, "")
        elif not word.startswith("-"):
            return word
        elif word in ("-c", "-"):
            break
    return ""


def thread_name(thread: Thread) -> str:
    """A thread as its name and id."""
    return f"{escape(thread.name)} ({thread.tid})" if thread.name else f"thread {thread.tid}"
