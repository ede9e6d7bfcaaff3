"""Telling the sampler where the code of its processes lies, as it meets code that it does not know."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from weft.collect.sampler import Event, EventKind, Sampler
from weft.errors import TargetError
from weft.target.code import CodeBook
from weft.target.process import Process

_AHEAD_TIME = 0.3  # seconds a look at each process


class CodeFollower:
    """Reads maps and makes tables on a thread of its own: a large library takes a second, and samples go on."""

    def __init__(self, sampler: Sampler, book: CodeBook) -> None:
        self._sampler = sampler
        self._book = book
        self._pids: dict[int, int] = {}
        self._lock = threading.Lock()
        self._asked: dict[int, list[int]] = {}  # by process: addresses that nobody has looked at yet
        self._worker = ThreadPoolExecutor(1, "weft-code")
        self._under_way: deque[Future[None]] = deque()

    def see(self, event: Event) -> None:
        """Follow processes, and answer the sampler."""
        match event.kind:
            case EventKind.PROCESS_START:
                self._pids[event.process] = event.id
            case EventKind.PROCESS_END:
                self._submit(self._forget, event.process, self._pids.pop(event.process, 0))
            case EventKind.CODE_UNKNOWN if event.process in self._pids:
                with self._lock:
                    asked = self._asked.setdefault(event.process, [])
                    asked.append(event.value)
                if len(asked) == 1:  # else it is in line already; while libraries are loaded, many come at once
                    self._submit(self._answer, event.process, self._pids[event.process])

    def look(self, among: Collection[int] | None) -> None:
        """Make tables of what processes (None: all) have mapped since the last call, before their code is met.

        First check().
        """
        self.check()
        if among is None and self._under_way:
            return  # they wait in line already
        for process, pid in self._pids.items():
            if among is None or process in among:
                self._submit(self._tell, process, pid, within_s=_AHEAD_TIME)

    def check(self) -> None:
        """Raise what has gone wrong in the work that is done."""
        while self._under_way and self._under_way[0].done():
            done = self._under_way.popleft()
            if not done.cancelled():
                done.result()

    def close(self) -> None:
        """End the work, without what has not begun."""
        self._worker.shutdown(cancel_futures=True)

    def _submit(self, work: Callable[..., None], *arguments: object, **options: object) -> None:
        self._under_way.append(self._worker.submit(work, *arguments, **options))

    def _answer(self, process: int, pid: int) -> None:
        with self._lock:
            asked = self._asked.pop(process)
        self._tell(process, pid, asked)

    def _forget(self, process: int, pid: int) -> None:
        self._book.forget(pid)
        self._sampler.forget_code(process)

    def _tell(self, process: int, pid: int, wanted: Sequence[int] = (), *, within_s: float = 0.0) -> None:
        with suppress(TargetError):  # it has ended
            self._sampler.set_code(process, self._book.map_of(Process(pid), wanted, within_s))
