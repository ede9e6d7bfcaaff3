"""speedscope's file format: https://www.speedscope.app/file-format-schema.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from weft.errors import ImportedFileError
from weft.imports.writing import MOST_NS, NOMINAL_HZ, SECOND, ImportWriter, frame_of
from weft.profile.names import NO_FRAME, escape
from weft.sample import Frame

UNITS: Final = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": SECOND}
COUNTS: Final = SECOND // NOMINAL_HZ  # what one of the unit "none" stands for


def read(data: bytes, writer: ImportWriter) -> None:
    """Adds each profile of the file as a thread."""
    document = _json(data)
    frames = [_frame(each) for each in _list(_field(document, "shared", dict), "frames")]
    profiles = _list(document, "profiles")
    units = {_field(profile, "unit", str) for profile in profiles}
    if not profiles or units - {*UNITS, "none"}:
        told = escape(", ".join(sorted(units - {*UNITS, "none"})))[:100]
        raise ImportedFileError(f"it holds {told}, not time" if profiles else "it has no profile")
    rates = [rate for profile in profiles if (rate := _rate(profile))]
    writer.describe(rate_hz=max(rates, default=None), timed=True, made_up="none" in units)
    start = min(_number(profile, "startValue") * UNITS.get(profile["unit"], COUNTS) for profile in profiles)
    for number, profile in enumerate(profiles):
        thread = writer.thread(_field(profile, "name", str), number + 1)
        scale = UNITS.get(profile["unit"], COUNTS)
        writer.skip(thread, round(_number(profile, "startValue") * scale - start))
        match _field(profile, "type", str):
            case "evented":
                shown = _events(profile, frames, writer)
            case "sampled":
                shown = _samples(profile, frames, writer)
            case _:
                raise ImportedFileError("a profile is neither evented nor sampled")
        for stack, time in shown:
            _run(writer, thread, stack, time * scale)


def _samples(profile: dict[str, Any], frames: Sequence[Frame], writer: ImportWriter) -> Iterator[tuple[int, float]]:
    """The stacks of a sampled profile, each with its time."""
    samples, weights = _list(profile, "samples"), _list(profile, "weights")
    if len(samples) != len(weights):
        raise ImportedFileError("a profile has not as many weights as samples")
    for sample, weight in zip(samples, weights, strict=True):
        stack = 0
        for index in sample if isinstance(sample, list) else (None,):
            stack = _called(writer, stack, frames, index)
        yield stack, _checked(weight)


def _events(profile: dict[str, Any], frames: Sequence[Frame], writer: ImportWriter) -> Iterator[tuple[int, float]]:
    """The stacks of an evented profile, each with its time; -1 where no frame is open."""
    open_frames: list[tuple[Any, int]] = []  # (index, stack)
    last = _number(profile, "startValue")
    for event in _list(profile, "events"):
        if not isinstance(event, dict):
            raise ImportedFileError("an event is no object")
        at, index = _number(event, "at"), event.get("frame")
        if at < last:
            raise ImportedFileError("its times run backwards, or last for centuries")
        if at > last:
            yield (open_frames[-1][1] if open_frames else -1), at - last
        last = at
        if event.get("type") == "O":
            stack = _called(writer, open_frames[-1][1] if open_frames else 0, frames, index)
            open_frames.append((index, stack))
        elif not open_frames or open_frames.pop()[0] != index:
            raise ImportedFileError("an event closes a frame that is not the innermost open one")
    if open_frames:
        raise ImportedFileError("a frame is never closed")


def _run(writer: ImportWriter, thread: int, stack: int, time_ns: float) -> None:
    """A stack for a time; -1: none, nothing was seen."""
    if not time_ns < MOST_NS:
        raise ImportedFileError("its times run backwards, or last for centuries")
    if stack < 0:
        writer.skip(thread, round(time_ns))
    else:
        writer.run(thread, stack, round(time_ns))


def _called(writer: ImportWriter, parent: int, frames: Sequence[Frame], index: object) -> int:
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(frames):
        raise ImportedFileError("a stack has a frame that is not there")
    frame = frames[index]
    return 0 if frame.function == NO_FRAME else writer.stack(parent, frame)


def _frame(value: object) -> Frame:
    if not isinstance(value, dict):
        raise ImportedFileError("a frame is no object")
    file, line = value.get("file"), value.get("line")
    return frame_of(
        _field(value, "name", str),
        file if isinstance(file, str) else "",
        line if isinstance(line, int) and not isinstance(line, bool) else 0,
    )


def _rate(profile: dict[str, Any]) -> int | None:
    """Samples a second, by the weight that is in the middle of them all; None if it has none that are times."""
    weights = profile.get("weights")
    if not isinstance(weights, list) or not weights or profile["unit"] not in UNITS:
        return None
    middle = sorted(_checked(weight) for weight in weights)[len(weights) // 2] * UNITS[profile["unit"]]
    return min(1_000_000, max(1, round(SECOND / middle))) if middle else None


def _json(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ImportedFileError(f"it is no JSON: {escape(str(error))[:100]}") from error
    if not isinstance(document, dict) or "profiles" not in document:
        raise ImportedFileError("it is JSON of another kind")
    return document


def _field(value: object, name: str, kind: type) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind):
        raise ImportedFileError(f"{name} is missing, or not what it should be")
    return found


def _list(value: object, name: str) -> list[Any]:
    found: list[Any] = _field(value, name, list)
    return found


def _number(value: dict[str, Any], name: str) -> float:
    return _checked(value.get(name))


def _checked(value: object) -> float:
    """A time, which is neither negative nor more than any clock tells."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < MOST_NS:
        raise ImportedFileError("a time is missing, or not what it should be")
    return value
