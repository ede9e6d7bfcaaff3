"""What a page that is served is told of a capture, made anew when the capture has grown."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from weft.capture import Capture
from weft.imports import open_recording
from weft.live.names import LiveNames
from weft.profile.names import recording_name
from weft.profile.tables import Profile, View
from weft.report.html.content import ALL, served
from weft.report.html.focus import Focus, Numbering
from weft.sample import Frame, FrameKind

LEAST_PAUSE_S: Final = 2.0  # between two readings of a capture that grows
PAUSE: Final = 9  # times as long as the last reading took: it takes a tenth of the time at most
MOST_KNOWN: Final = 4  # places that pages look at, of which data are kept: 10 MB each

T = TypeVar("T")
_Stamp = tuple[tuple[int, int, int] | int | None, ...]


class Told(NamedTuple):
    """A state of the capture, for a page."""

    version: str  # two that are equal have the same data
    data: bytes  # as content.served() packs it


class _Known(NamedTuple):
    stamp: _Stamp
    next_s: float  # by time.monotonic(): when it may be read again
    told: Told


class Feed:
    """One capture, for any number of pages. Whatever reads it runs in one thread of its own.

    Every method may be called from any thread, and raises CaptureError where the capture is damaged or gone.
    """

    def __init__(self, path: Path, view: View) -> None:
        self._path = path
        self._view = view
        self._worker = ThreadPoolExecutor(1, "weft-feed")
        self._numbering = Numbering()
        self._addresses: dict[int, Frame] = {}  # native frames that had no name at first, by their id in the capture
        self._unnamed = False  # whether some have none still
        self._names: LiveNames | None = None  # of what is recorded here and now
        self._found: dict[int, list[Frame]] = {}  # by them
        self._asked = 0  # the last frame whose name they were asked for
        self._known: dict[Focus, _Known] = {}  # what was told last, for each place that pages look at
        self._renamed: dict[int, list[int]] = {}  # numbers of frames that were addresses -> of what lies there
        self._states = 0
        self._stamp: _Stamp = ()
        self._kept: tuple[Capture, Profile] | None = None  # of a recording that has ended

    def close(self) -> None:
        """Lets go of the capture."""
        self._run(self._let_go)
        self._run(self._end_names)
        self._worker.shutdown()

    def title(self) -> str:
        """What was recorded, as the page's title."""
        return self._run(self._title)

    def data(self, have: str = "", focus: Focus | None = None) -> Told | None:
        """What there is to know of the capture, most finely where the page looks; None: nothing but `have`.

        Of a capture that grows, None for as long as reading it again would take more than its part of the time, if the
        page looks where it did. Raises IndexError if the focus has a frame that no page was told.
        """
        return self._run(lambda: self._data(have, focus or Focus()))

    def quiet_s(self) -> float:
        """For how long nothing has been written to the capture: a recorder writes each second, unless it was killed."""
        written_ns = max((stamp[2] for stamp in _stamp(self._path) if stamp), default=0)
        return max(0.0, time.time() - written_ns / 1e9)

    def source(self, number: int) -> str:
        """The text of the file whose name has this number; IndexError: there is none."""
        return self._run(lambda: self._source(number))

    def _run(self, read: Callable[[], T]) -> T:
        return self._worker.submit(read).result()

    def _let_go(self) -> None:
        if self._kept:
            self._kept[0].close()
            self._kept = None

    def _end_names(self) -> None:
        if self._names:
            self._names.close()
        self._names = None

    def _title(self) -> str:
        if self._kept:
            return recording_name(self._kept[0].processes()) or "weft"
        with open_recording(self._path) as capture:
            return recording_name(capture.processes()) or "weft"

    def _data(self, have: str, focus: Focus) -> Told | None:
        if any(number >= len(self._numbering.frames) for number in focus.path):
            raise IndexError("no page was told of such a frame")
        stamp = (*_stamp(self._path), self._take_names())
        known = self._known.get(focus)
        if known and (known.stamp == stamp or time.monotonic() < known.next_s):
            return None if known.told.version == have else known.told
        if stamp != self._stamp:
            self._let_go()
            self._stamp = stamp
        began_s = time.monotonic()
        self._states += 1
        told = Told(str(self._states), self._read(str(self._states), focus))
        took_s = time.monotonic() - began_s
        self._known.pop(focus, None)
        self._known[focus] = _Known(stamp, began_s + took_s + max(LEAST_PAUSE_S, PAUSE * took_s), told)
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return told

    def _read(self, version: str, focus: Focus) -> bytes:
        if self._kept:
            return self._packed(*self._kept, version, focus)
        capture = open_recording(self._path)
        try:
            self._ask_names(capture)
            profile = Profile.from_capture(capture, ALL)
            self._note_names(capture)
            data = self._packed(capture, profile, version, focus)
            if "end_ns" in capture.meta:
                self._kept = capture, profile
            return data
        finally:
            if not self._kept:
                capture.close()  # whoever writes it can end it as one file only if nobody has it open

    def _packed(self, capture: Capture, profile: Profile, version: str, focus: Focus) -> bytes:
        more: dict[str, Any] = {
            "version": version,
            "recording": "end_ns" not in capture.meta,
            "ended": str(capture.meta.get("ended", "")),
            "focus": {"path": focus.path, "window": focus.window_us},
            "renamed": self._renamed,
            "unnamed": self._unnamed,
        }
        return served(capture, profile, self._view, self._numbering, focus, more)

    def _take_names(self) -> int:
        """How many names have been found of those that the recorder writes at its end only."""
        if self._names and self._names.has_news:
            self._found.update((number, functions) for number, functions in self._names.take().items() if functions)
        return len(self._found)

    def _ask_names(self, capture: Capture) -> None:
        """Has names looked up while the program runs on this machine, and lets the capture use those that are known."""
        if "end_ns" in capture.meta or capture.meta.get("host") != platform.node():
            self._end_names()
            return
        self._names = self._names or LiveNames()
        capture.names = self._found
        places = list(capture.places(self._asked))
        self._asked = max((place.frame for place in places), default=self._asked)
        self._names.ask(places, capture.modules(), [one.pid for one in capture.processes() if one.end_ns is None])

    def _note_names(self, capture: Capture) -> None:
        """Notes which frames are addresses, and what lies there as soon as it is known."""
        self._unnamed = False
        for number, functions in capture.frames():
            if _is_address(functions[-1]):
                self._addresses[number] = functions[-1]
                self._unnamed = True
            elif number in self._addresses:
                before = self._numbering.frame(self._addresses[number])
                self._renamed[before] = [self._numbering.frame(function) for function in functions]

    def _source(self, number: int) -> str:
        file = list(self._numbering.strings)[number]
        if self._kept:
            for source in self._kept[0].sources():
                if source.file == file and source.text is not None:
                    return source.text
        raise IndexError("there is no such source")


def _is_address(frame: Frame) -> bool:
    return frame.kind is FrameKind.NATIVE and frame.function.startswith("0x")


def _stamp(path: Path) -> tuple[tuple[int, int, int] | None, ...]:
    """What changes when the capture does."""
    stamps: list[tuple[int, int, int] | None] = []
    for each in (path, path.with_name(path.name + "-wal")):
        stamps.append(None)
        with suppress(OSError):
            status = each.stat()
            stamps[-1] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return tuple(stamps)
