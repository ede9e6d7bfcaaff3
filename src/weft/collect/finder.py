"""Looking for Python in the processes of a recording, as they start and as they load libraries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.collect.recorder import Recorder
from weft.collect.sampler import Event, EventKind, Sampler
from weft.cpython.check import NotReadyError
from weft.cpython.locate import Runtime, find_runtime
from weft.errors import LayoutError, NotPythonError, TargetError
from weft.target.maps import Mapping
from weft.target.process import Process

_FIRST_PAUSE = 0.005  # seconds between looks at a process that starts; doubled each time
_LONGEST_PAUSE = 1.0
# On a busy machine a process that has just forked has its parent's threads for longer than a proof lasts.
_MAX_PROOFS = 3
_SETTLED = 3  # looks that found no Python and nothing newly mapped: it is no Python program, so far


_File = tuple[str, str, int, int]  # path, device, inode, when it was changed


@dataclass(slots=True)
class _Search:
    pid: int
    next_look: float = 0.0
    pause: float = _FIRST_PAUSE
    mapped: frozenset[str] = field(default_factory=frozenset)
    idle_looks: int = 0
    failed_proofs: int = 0
    told: bool = False  # the sampler knows that there is no Python, so far


class Finder:
    """Tells the sampler and the recorder where each process's Python is. It never blocks on one of them."""

    def __init__(self, sampler: Sampler, recorder: Recorder, *, told_of_code: bool) -> None:
        """told_of_code: CODE_MAPPED comes when a process maps code; else it has to be looked at again and again."""
        self._told_of_code = told_of_code
        self._sampler = sampler
        self._recorder = recorder
        self._searches: dict[int, _Search] = {}
        self._settled: dict[int, _Search] = {}  # that go on when their process maps code
        # Code that holds no Python, in whatever process it is: a shell starts the same commands again and again.
        self._without_python: set[_File] = set()
        self.found: list[Runtime] = []
        self.failures: dict[int, LayoutError] = {}  # pid -> why its Python cannot be read

    def see(self, event: Event) -> None:
        """Begin or end a search, as processes come and go."""
        match event.kind:
            case EventKind.PROCESS_START:
                if runtime := self._recorder.runtime_of(event.process):
                    self.found.append(runtime)
                else:
                    self._searches[event.process] = _Search(event.id)
            case EventKind.PYTHON_INHERITED | EventKind.PROCESS_END:
                self._searches.pop(event.process, None)
                self._settled.pop(event.process, None)
            case EventKind.CODE_MAPPED if search := self._settled.pop(event.process, None):
                self._searches[event.process] = search

    @property
    def is_searching(self) -> bool:
        """Whether a process may become a Python program at any moment."""
        return any(not search.told for search in self._searches.values())

    def look(self) -> None:
        """Look at the processes that are due. A call takes some milliseconds for each."""
        now = time.monotonic()
        for process, search in list(self._searches.items()):
            if search.next_look <= now:
                search.next_look = now + search.pause
                search.pause = min(search.pause * 2, _LONGEST_PAUSE)
                self._look_at(process, search)

    def _look_at(self, process: int, search: _Search) -> None:
        try:
            mappings = Process(search.pid).maps()
            code = _code_of(search.pid, mappings)
            if code and code <= self._without_python:
                search.idle_looks = max(search.idle_looks, _SETTLED - 1)
                self._note_idle(process, search)
                return
            runtime = find_runtime(search.pid)
        except NotReadyError:
            search.pause = _FIRST_PAUSE
        except NotPythonError:
            mapped = frozenset(mapping.path for mapping in mappings if mapping.is_file)
            if mapped != search.mapped:
                # Python may still come, in a library that is being loaded.
                search.mapped = mapped
                search.idle_looks = 0
                search.pause = min(search.pause, 4 * _FIRST_PAUSE)
                return
            if search.idle_looks == _SETTLED - 1:
                self._without_python |= code
            self._note_idle(process, search)
        except LayoutError as error:
            self.failures[search.pid] = error
            search.failed_proofs += 1
            if search.failed_proofs == _MAX_PROOFS:
                self._tell(process, None)
                del self._searches[process]
        except TargetError:
            del self._searches[process]  # it has ended; the sampler will say so
        else:
            self.found.append(runtime)
            self.failures.pop(search.pid, None)
            self._tell(process, runtime)
            del self._searches[process]

    def _note_idle(self, process: int, search: _Search) -> None:
        """Note a look that found no Python, and nothing new. A program that embeds it may still load it."""
        search.idle_looks += 1
        if search.idle_looks == _SETTLED and not search.told:
            search.told = True
            self._tell(process, None)
        if search.told and self._told_of_code:
            search.idle_looks = 0
            search.next_look = 0.0
            search.pause = _FIRST_PAUSE
            self._settled[process] = self._searches.pop(process)

    def _tell(self, process: int, runtime: Runtime | None) -> None:
        self._recorder.set_runtime(process, runtime)
        self._sampler.set_runtime(process, runtime)


def _code_of(pid: int, mappings: Sequence[Mapping]) -> set[_File]:
    """Return the files whose code a process has mapped; empty if one of them cannot be told from others."""
    files = set()
    for mapping in mappings:
        if mapping.is_file and "x" in mapping.perms:
            try:
                changed = Path(f"/proc/{pid}/root{mapping.path}").stat().st_mtime_ns
            except (OSError, ValueError):
                return set()
            files.add((mapping.path, mapping.dev, mapping.inode, changed))
    return files
