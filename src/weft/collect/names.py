"""What Python calls the threads of a recording: the kernel's names are all alike before 3.14."""

from __future__ import annotations

import time

from weft.cpython.locate import Runtime
from weft.cpython.objects import ObjectError
from weft.cpython.threads import Marks, named_tids, thread_names
from weft.errors import MemoryReadError, TargetError
from weft.target.process import Process

_PERIOD = 0.5  # seconds between looks at a process that has threads without a name
_RARER = 4  # times, after each look: before a program imports threading, its thread has no name
_SHARE = 20  # a look may take a twentieth of the time until the next one


class ThreadNames:
    """Looks for the names of one process's threads, while there are threads that have none yet."""

    def __init__(self) -> None:
        self._unnamed: dict[int, int] = {}  # tid -> the recording's number of the thread
        self._without_threading: Marks = {}
        self._next_look = 0.0
        self._pause = _PERIOD

    def add(self, tid: int, thread: int) -> None:
        """Note a new thread."""
        self._unnamed[tid] = thread
        self._pause = _PERIOD

    def has(self, tid: int) -> bool:
        """Return whether Python's own name for a thread is known."""
        return tid not in self._unnamed

    def remove(self, tid: int) -> None:
        """Note that a thread has ended."""
        self._unnamed.pop(tid, None)

    @property
    def is_due(self) -> bool:
        """Whether look() would look."""
        return bool(self._unnamed) and time.monotonic() >= self._next_look

    def look(self, process: Process, runtime: Runtime) -> dict[int, str]:
        """Return the names that were found: the recording's number of a thread -> name.

        A thread that Python does not know (a library's own) never gets one, so looks become rare.
        """
        if not self.is_due:
            return {}
        now = time.monotonic()
        try:
            told = thread_names(process.memory, runtime, self._without_threading)
            names = named_tids(process.memory, told, process.namespace_ids()) if told else {}
        except (MemoryReadError, ObjectError, TargetError):
            names = {}  # the program runs on while its threads are listed: the next look may do better
        took = time.monotonic() - now
        self._next_look = now + max(self._pause, took * _SHARE)
        self._pause *= _RARER
        return {self._unnamed.pop(tid): name for tid, name in names.items() if tid in self._unnamed}
