"""pprof's profile.proto, as `go tool pprof` and its relatives read it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Final

from weft.capture import Capture
from weft.export.profile_pb2 import Profile as Message
from weft.profile.names import ELIDED_FRAMES, NO_FRAME, escape, process_name
from weft.profile.quality import Account
from weft.profile.tables import EMPTY, Profile, Total, View
from weft.profile.transform import ELIDED, Folded, fold, paths_within
from weft.profile.units import BYTES
from weft.sample import Frame

MOST_FRAMES: Final = 10_000_000  # in one file; beyond it, stacks are shown with
LONGEST: Final = 1_000  # frames at most

Place = tuple[str, str, int, int]  # function, file, first line, line


def render(capture: Capture, view: View) -> Iterator[bytes]:
    """One sample for each stack of each thread in each state, with its count and its time in ns, or in mode alloc its
    bytes; the comments are the honest account.
    """
    profile = Profile.from_capture(capture, view)
    folded = fold(profile, _place)
    builder = _Builder(profile, folded)
    for total in profile.totals:
        builder.add_sample(total)
    for line in Account.from_capture(capture).lines():
        builder.message.comment.append(builder.string(line))
    yield gzip.compress(builder.message.SerializeToString(), compresslevel=6, mtime=0)


def _place(frame: Frame) -> Place:
    return frame.function, frame.file, frame.first_line, frame.line


class _Builder:
    """Builds the message; the ids of its parts count from 1, and string 0 is the empty one."""

    def __init__(self, profile: Profile, folded: Folded[Place]) -> None:
        self.message = Message()
        self._profile = profile
        self._nodes = folded.nodes
        self._strings: dict[str, int] = {}
        self._functions: dict[tuple[str, str, int], int] = {}
        self.string("")
        self._add_head()
        self._locations = {i: self._location(*place) for i, place in enumerate(folded.keys)}
        shown = {folded.nodes[total.stack] for total in profile.totals}
        self._paths = paths_within(folded.stacks, shown, MOST_FRAMES, LONGEST)

    def string(self, text: str) -> int:
        """The index of a string."""
        number = self._strings.setdefault(text, len(self._strings))
        if number == len(self.message.string_table):
            self.message.string_table.append(text)
        return number

    def add_sample(self, total: Total) -> None:
        """One total as a sample, its leaf first."""
        profile = self._profile
        sample = self.message.sample.add()
        path = self._paths(self._nodes[total.stack]) or [EMPTY]
        sample.location_id.extend([self._special(frame) for frame in reversed(path)])
        sample.value.extend((total.ticks, total.weight_ns))
        process, thread = profile.processes[total.process], profile.threads[total.thread]
        for key, text in (
            ("process", process_name(process)),
            ("thread", escape(thread.name)),
            ("state", total.state.name.lower()),
        ):
            sample.label.add(key=self.string(key), str=self.string(text))
        for key, number in (("pid", process.pid), ("tid", thread.tid)):
            sample.label.add(key=self.string(key), num=number)

    def _add_head(self) -> None:
        profile = self._profile
        if profile.unit is BYTES:  # as in Go's profiles of the heap (runtime/pprof, writeHeapInternal)
            types = (("alloc_objects", "count"), ("alloc_space", "bytes"))
            period = ("space", "bytes", profile.bytes_a_sample)
        else:
            types = (("samples", "count"), (profile.mode, "nanoseconds"))
            period = (profile.mode, "nanoseconds", 1_000_000_000 // profile.rate_hz)
        for kind, unit in types:
            self.message.sample_type.add(type=self.string(kind), unit=self.string(unit))
        self.message.default_sample_type = self.string(types[1][0])
        self.message.period_type.type, self.message.period_type.unit = self.string(period[0]), self.string(period[1])
        self.message.period = period[2]
        self.message.time_nanos = profile.start_unix_ns
        self.message.duration_nanos = profile.duration_ns

    def _special(self, frame: int) -> int:
        if frame not in self._locations:
            self._locations[frame] = self._location({ELIDED: ELIDED_FRAMES, EMPTY: NO_FRAME}[frame], "", 0, 0)
        return self._locations[frame]

    def _location(self, name: str, file: str, first_line: int, line: int) -> int:
        location = self.message.location.add(id=len(self.message.location) + 1)
        location.line.add(function_id=self._function(name, file, first_line), line=line)
        return int(location.id)

    def _function(self, name: str, file: str, first_line: int) -> int:
        key = name, file, first_line
        if key not in self._functions:
            self._functions[key] = len(self._functions) + 1
            # No system_name: pprof would take an equal one for a C++ name and strip <module> and <lambda> from it.
            self.message.function.add(
                id=self._functions[key],
                name=self.string(escape(name)),
                filename=self.string(escape(file)),
                start_line=first_line,
            )
        return self._functions[key]
