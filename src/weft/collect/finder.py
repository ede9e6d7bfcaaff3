"""Looking for Python in the processes of a recording, as they start and as they load libraries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from weft.collect.recorder import Recorder
from weft.collect.sampler import Event, EventKind, Sampler
from weft.cpython.check import NotReadyError
from weft.cpython.locate import Runtime, find_runtime
from weft.errors import (
    LayoutError,
    NoSuchProcessError,
    NotPythonError,
    PermissionDeniedError,
    TargetError,
    TargetExitedError,
    WeftError,
)
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
    begun: float = field(default_factory=time.monotonic)
    next_look: float = 0.0
    pause: float = _FIRST_PAUSE
    mapped: frozenset[str] = field(default_factory=frozenset)
    has_mapped: bool = False  # code, since the last look
    idle_looks: int = 0
    failed_proofs: int = 0
    told: bool = False  # the sampler knows that there is no Python, so far


class Finder:
    """Tells the sampler and the recorder where each process's Python is. It never blocks on one of them."""

    def __init__(self, sampler: Sampler, recorder: Recorder, *, told_of_code: bool) -> None:
        """told_of_code: CODE_MAPPED comes when a process maps code; else it has to be looked at again and again."""
        self._longest_pause = inf if told_of_code else _LONGEST_PAUSE
        self._sampler = sampler
        self._recorder = recorder
        self._searches: dict[int, _Search] = {}
        # Code in which no Python was found: a shell starts the same commands again and again.
        self._without_python: set[_File] = set()
        self.found: list[Runtime] = []
        self.failures: dict[int, WeftError] = {}  # pid -> why its Python cannot be read

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
            case EventKind.CODE_MAPPED if search := self._searches.get(event.process):
                search.has_mapped = True

    @property
    def is_searching(self) -> bool:
        """Whether a process may soon become a Python program."""
        return any(not search.told and search.pause < _LONGEST_PAUSE for search in self._searches.values())

    def look(self) -> None:
        """Look at the processes that are due. A call takes some milliseconds for each."""
        now = time.monotonic()
        for process, search in list(self._searches.items()):
            is_due = search.next_look <= now
            if is_due:
                search.next_look = now + search.pause
                search.pause = min(search.pause * 2, self._longest_pause)
            if is_due or search.has_mapped:
                self._look_at(process, search, is_due=is_due)

    def _look_at(self, process: int, search: _Search, *, is_due: bool) -> None:
        try:
            mappings = Process(search.pid).maps()
            before, search.mapped = search.mapped, frozenset(mapping.path for mapping in mappings if mapping.is_file)
            search.has_mapped = False
            if search.mapped == before and not is_due:
                return  # only memory, as JIT compilers map it
            code = _code_of(search.pid, mappings)
            if not search.told and code and code <= self._without_python:
                # Known at once, but not for good: where nothing but memory tells of a Python, it has to have begun.
                search.pause = _LONGEST_PAUSE
                search.next_look = time.monotonic() + search.pause
                self._tell_none(process, search)
                return
            runtime = find_runtime(search.pid)
        except NotReadyError:
            # perf, gdb and editors may never begin the Python in them. It is found within a quarter of what that took.
            now = time.monotonic()
            search.pause = min(max(_FIRST_PAUSE, (now - search.begun) / 4), _LONGEST_PAUSE)
            search.next_look = now + search.pause
        except NotPythonError:
            if search.mapped != before:
                # Python may still come, in a library that is being loaded.
                search.idle_looks = 0
                search.pause = min(search.pause, 4 * _FIRST_PAUSE)
                search.next_look = time.monotonic() + search.pause
                return
            search.idle_looks += 1
            if search.idle_looks == _SETTLED and not search.told:
                self._without_python |= code
                self._tell_none(process, search)
        except LayoutError as error:
            self.failures[search.pid] = error
            search.failed_proofs += 1
            if search.failed_proofs == _MAX_PROOFS:
                self._tell(process, None)
                del self._searches[process]
        except PermissionDeniedError as error:
            self.failures[search.pid] = error
            self._tell(process, None)
            del self._searches[process]
        except (NoSuchProcessError, TargetExitedError):
            del self._searches[process]  # the sampler will say so
        except TargetError as error:  # there are too many open files, say, for now
            self.failures[search.pid] = error
            search.next_look = time.monotonic() + _LONGEST_PAUSE
        else:
            self.found.append(runtime)
            self.failures.pop(search.pid, None)
            self._without_python -= {file for file in code if file[0] == runtime.module}
            self._tell(process, runtime)
            del self._searches[process]

    def _tell_none(self, process: int, search: _Search) -> None:
        search.told = True
        self._tell(process, None)

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
