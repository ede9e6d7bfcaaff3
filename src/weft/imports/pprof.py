"""pprof's profile.proto, which src/weft/export/profile.proto is a copy of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from weft.errors import ImportedFileError
from weft.export.profile_pb2 import Location, Sample
from weft.export.profile_pb2 import Profile as Message
from weft.imports.writing import NOMINAL_HZ, SECOND, ImportWriter, frame_of
from weft.profile.names import NO_FRAME, escape
from weft.sample import Frame, State

UNITS: Final = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": SECOND}
MOST_INLINED: Final = 1_000  # functions at one location
STATES: Final = {state.name.lower(): state for state in State}


def read(data: bytes, writer: ImportWriter) -> None:
    """Adds all samples; threads and processes are those that labels tell."""
    message = Message()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ImportedFileError("it is nothing that weft reads") from error
    if not message.sample_type or not message.sample:
        raise ImportedFileError("it has no samples")
    _Reader(message, writer).read()


class _Reader:
    """What a message refers to, checked."""

    def __init__(self, message: Message, writer: ImportWriter) -> None:
        self._message = message
        self._writer = writer
        self._functions = {function.id: function for function in message.function}
        self._modules = {mapping.id: self._string(mapping.filename) for mapping in message.mapping}
        self._frames = {location.id: self._inlined(location) for location in message.location}
        self._columns = len(message.sample_type)

    def read(self) -> None:
        """Adds all samples."""
        time, scale, count = self._values()
        period = self._message.period if self._string(self._message.period_type.unit) == "nanoseconds" else 0
        rate_hz = min(1_000_000, max(1, SECOND // period)) if period > 0 and time is not None else None
        name = self._string(self._message.sample_type[time].type) if time is not None else ""
        self._writer.describe(
            rate_hz=rate_hz,
            timed=False,
            made_up=time is None,
            mode=name if name in ("cpu", "gil") else "wall",
            start=max(0, self._message.time_nanos),
        )
        for sample in self._message.sample:
            if len(sample.value) != self._columns:
                raise ImportedFileError("a sample has not as many values as there are types of them")
            ticks = sample.value[count] if count is not None else None
            weight_ns = sample.value[time] * scale if time is not None else (ticks or 0) * (SECOND // NOMINAL_HZ)
            if ticks is None:
                ticks = max(1, weight_ns * (rate_hz or NOMINAL_HZ) // SECOND)
            labels = self._labels(sample)
            state = STATES.get(str(labels.get("state", "")), State.RUNNING)
            self._writer.run(self._thread(labels), self._stack(sample), weight_ns, ticks, state)

    def _values(self) -> tuple[int | None, int, int | None]:
        """Which values are time, in units of how many ns, and which are numbers of samples."""
        kinds = [(self._string(kind.type), self._string(kind.unit)) for kind in self._message.sample_type]
        default = self._string(self._message.default_sample_type)
        times = [place for place, (_, unit) in enumerate(kinds) if unit in UNITS]
        chosen = [place for place in times if kinds[place][0] == default] or times[-1:]
        counts = [place for place, (name, unit) in enumerate(kinds) if unit == "count" and "sample" in name]
        counts = counts or ([] if chosen else [place for place, (_, unit) in enumerate(kinds) if unit == "count"])
        if not chosen and not counts:
            told = escape(", ".join(f"{name} in {unit}" for name, unit in kinds))[:100]
            raise ImportedFileError(f"it holds {told}, neither time nor samples")
        time = chosen[0] if chosen else None
        return time, UNITS[kinds[time][1]] if time is not None else 1, counts[0] if counts else None

    def _stack(self, sample: Sample) -> int:
        stack = 0
        for location in reversed(sample.location_id):
            if location not in self._frames:
                raise ImportedFileError("a sample has a location that is not there")
            for frame in self._frames[location]:
                if frame.function != NO_FRAME:
                    stack = self._writer.stack(stack, frame)
        return stack

    def _inlined(self, location: Location) -> Sequence[Frame]:
        """The functions at a location, the outermost first."""
        if len(location.line) > MOST_INLINED:
            raise ImportedFileError(f"a location has more than {MOST_INLINED:,} functions")
        module = self._modules.get(location.mapping_id, "")
        if not location.line:
            return (frame_of(f"{location.address:#x}", module, 0),)
        frames = []
        for line in reversed(location.line):
            function = self._functions.get(line.function_id)
            if function is None:
                raise ImportedFileError("a location has a function that is not there")
            file = self._string(function.filename) or module
            first = max(0, function.start_line)
            frames.append(frame_of(self._string(function.name), file, max(0, line.line) if file else 0, first))
        return frames

    def _labels(self, sample: Sample) -> dict[str, str | int]:
        return {self._string(label.key): self._string(label.str) if label.str else label.num for label in sample.label}

    def _thread(self, labels: Mapping[str, str | int]) -> int:
        """The thread that labels tell: weft's own, and those of others."""
        name = next((labels[key] for key in ("thread", "thread_name", "thread name") if key in labels), "")
        tid = next((labels[key] for key in ("tid", "thread_id", "thread id") if key in labels), 0)
        pid = labels.get("pid", 0)
        return self._writer.thread(
            str(name),
            tid if isinstance(tid, int) else 0,
            pid if isinstance(pid, int) else 0,
            str(labels.get("process", "")),
        )

    def _string(self, index: int) -> str:
        if not 0 <= index < len(self._message.string_table):
            raise ImportedFileError("a string is not there")
        return self._message.string_table[index]
