"""Looks at a capture again and again, for a model: what has come, with names where they can be had at once."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from weft.capture.copy import copy_capture
from weft.live.follow import Follower, News
from weft.live.model import WINDOW_NS, Model, Pane, Settings
from weft.live.names import LiveNames
from weft.sample import Frame, FrameFlag

_NAMES_WAIT: Final = 0.02  # seconds
_WAITS_SHARE: Final = 0.005  # of a core, to read who waits for the GIL
_NAMES_TURNS: Final = 8  # that new frames wait for their names before they are shown by their addresses


class Watch:
    """A capture that is watched: `model` is what is known of it."""

    def __init__(self, path: Path, settings: Settings) -> None:
        """Read what is there. CaptureError."""
        self.path = path
        self._follower = Follower(path)
        self._flags: dict[int, FrameFlag] = {}  # of frames that had no names when they came
        self._named: dict[int, tuple[Frame, ...]] = {}
        news = self._follower.look(WINDOW_NS)
        self.meta = news.meta
        self.model = Model(settings, mode=str(news.meta.get("mode", "wall")))
        is_here = not news.ended and news.meta.get("host") == platform.node()
        self._names = LiveNames() if is_here else None
        self._ask(news)
        self.model.feed(news)
        self._next_waits = 0.0  # when they are to be read again
        self._read_waits()

    async def look(self) -> bool:
        """Read what has come; whether there may be more. CaptureError."""
        if self._follower.has_ended:
            return False
        news = self._follower.look(WINDOW_NS, self.model.reset_ns)
        self._ask(news)
        if self._names:
            for _ in range(_NAMES_TURNS):
                if not self._names.is_busy:
                    break
                await asyncio.sleep(_NAMES_WAIT)
        self._take(news)
        if self.model.settings.pane in (Pane.THREADS, Pane.GIL) or news.ended:
            self._read_waits()
        return not self._follower.has_ended

    def reset(self) -> None:
        """Count from now on. CaptureError."""
        self._take_waits()
        self.model.reset()

    def _read_waits(self) -> None:
        """Read who made whom wait, unless that took much and was just done: there may be many pairs of stacks."""
        if time.monotonic() < self._next_waits:
            return
        begin = time.process_time()
        self._take_waits()
        if self.model.settings.pane is Pane.GIL:
            self.model.wait_rows()
        elif self.model.settings.pane is Pane.THREADS:
            self.model.thread_rows()
        self._next_waits = time.monotonic() + (time.process_time() - begin) / _WAITS_SHARE

    def _take_waits(self) -> None:
        waits, are_estimated = self._follower.gil_waits(WINDOW_NS)
        self.model.waits.take(waits, are_estimated=are_estimated)

    def write(self, path: Path) -> None:
        """Write what was recorded so far as a capture of its own. CaptureError, OutputError."""
        functions: Mapping[int, tuple[Frame, ...]] = {} if self._follower.has_ended else dict(self._named)
        copy_capture(self.path, path, functions)

    def close(self) -> None:
        """End what names frames."""
        if self._names:
            self._names.close()

    def _ask(self, news: News) -> None:
        if self._names and not news.anew:
            nameless = {place.frame for place in news.nameless}
            self._flags.update((number, functions[-1].flags) for number, functions in news.frames if number in nameless)
            pids = [process.pid for process in news.processes.values() if process.end_ns is None]
            self._names.ask(news.nameless, news.modules, [pid for pid in pids if pid != os.getpid()])

    def _take(self, news: News) -> None:
        """Feed the model. Names of frames that it has already make its stacks other ones."""
        taken = self._names.take() if self._names and not news.anew else {}
        named = {number: self._whole(number, functions) for number, functions in taken.items() if functions}
        self._named.update(named)
        new = {number for number, _ in news.frames}
        self.model.feed(news, [(number, frames) for number, frames in named.items() if number in new])
        late = [(number, frames) for number, frames in named.items() if number not in new]
        if late:
            self.model.rename(late, self._follower.stacks())

    def _whole(self, number: int, functions: list[Frame]) -> tuple[Frame, ...]:
        """A frame's functions, the innermost with what weaving has told of the frame."""
        *outer, inner = functions
        return *outer, inner._replace(flags=inner.flags | self._flags.get(number, FrameFlag(0)))
