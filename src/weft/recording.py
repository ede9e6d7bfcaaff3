"""weft.record(): a program records itself, by a process of its own that attaches to it."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from weft.collect.choose import Collector
from weft.collect.sampler import Mode
from weft.errors import CollectorError, WeftError
from weft.export import CAPTURE_ENDING, format_of
from weft.profile.tables import View
from weft.recorder import RecorderProcess
from weft.results import Results
from weft.scratch import new_folder

PR_SET_PTRACER: Final = 0x59616D61  # include/uapi/linux/prctl.h

P = ParamSpec("P")
R = TypeVar("R")


class Recording:
    """A recording of this process: a context manager, and a decorator that records each call.

    `results` has what was recorded, once it has ended; `warnings` are lines about what could not be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        rate_hz: int = 99,
        mode: Mode = Mode.WALL,
        collector: Collector | str = Collector.AUTO,
        subprocesses: bool = False,
        native: bool = True,
        idle: bool = False,
    ) -> None:
        self.path = None if path is None else Path(path)
        self.warnings: list[str] = []
        self._format = None if self.path is None else format_of(self.path)
        self._options = {
            "rate_hz": rate_hz,
            "mode": mode.name,
            "collector": Collector(collector).value,
            "subprocesses": subprocesses,
            "native": native,
        }
        self._idle = idle
        self._recorder: _Recorder | None = None
        self._results: Results | None = None

    @property
    def results(self) -> Results:
        """What was recorded last; WeftError before a recording has ended."""
        if self._results is None:
            raise WeftError("the recording has not ended: ask for its results after the with block")
        return self._results

    def __enter__(self) -> Self:
        """Starts recording; returns when samples are taken. Raises TargetError and CollectorError."""
        if self._recorder is not None:
            raise WeftError("this recording runs already; make another one with weft.record()")
        self._recorder = _Recorder(self.path if self._format is None else None, self._options)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder, self._recorder = self._recorder, None
        assert recorder is not None
        try:
            with recorder.finished() as (path, self.warnings):
                self._results = Results(path, View(idle=self._idle))
            if self._format is not None:
                assert self.path is not None
                self._results.write(self.path)
        except WeftError:
            if error is None:
                raise

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, recorded on each call; one within another is part of it."""

        @functools.wraps(function)
        def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
            if self._recorder is not None:
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return recorded


class _Recorder:
    """The process that records this one."""

    def __init__(self, path: Path | None, options: dict[str, Any]) -> None:
        if not sys.executable:
            raise CollectorError("weft.record() starts a Python, and sys.executable is empty", "use weft record -p PID")
        self._folder = new_folder() if path is None else None
        self._path = path or (self._folder or Path()) / f"recording{CAPTURE_ENDING}"
        self._recorder = RecorderProcess("weft.record()")
        self._process = self._recorder.process
        _allow_tracer(self._process.pid)
        try:
            self._recorder.ask({"pid": os.getpid(), "path": str(self._path.resolve()), "options": options})
        except BaseException:
            self._end()
            raise

    @contextmanager
    def finished(self) -> Iterator[tuple[Path, list[str]]]:
        """Ends the recording. Gives the capture, gone afterwards if it has no name of its own, and warnings."""
        try:
            self._process.send_signal(signal.SIGINT)
            told = self._recorder.told()
            self._process.wait()
            yield self._path, told.get("warnings", [])
        finally:
            self._end()

    def _end(self) -> None:
        _allow_tracer(0)
        self._process.kill()
        self._process.communicate()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _allow_tracer(pid: int) -> None:
    """Let this process be traced by another, which is no parent of it: Documentation/admin-guide/LSM/Yama.rst, scope 1.

    0: by nobody any more. Where there is no Yama, the call fails and nothing is needed.
    """
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
