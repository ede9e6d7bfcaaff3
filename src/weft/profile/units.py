"""Numbers as a reader likes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


def duration(ns: int) -> str:
    """A time to three digits: 0 s, 21 µs, 1.25 s, 3 min 20 s."""
    if ns >= 100_000_000_000:
        minutes, seconds = divmod(round(ns / 1_000_000_000), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
    for size, unit in _UNITS:
        if ns >= size * 0.9995:  # what would round to 1000 of the next unit
            return f"{_digits(ns / size)} {unit}"
    return f"{ns} ns" if ns else "0 s"


def share(part: int, whole: int) -> str:
    """A part in percent: 12.3 %, <0.1 %, >99.9 %; 0 % and 100 % are exact. 0 % of nothing."""
    if part in (0, whole):
        return "100 %" if part else "0 %"
    percent = f"{100 * part / whole:.1f} %"
    return {"0.0 %": "<0.1 %", "100.0 %": ">99.9 %"}.get(percent, percent)


def amount(count: int, noun: str) -> str:
    """A count with its noun: 1 sample, 2,000 samples."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """An amount of memory to three digits: 0 B, 512 KiB, 1.25 GiB."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1023.5:  # what would round to 1024
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{_digits(value)} {unit}"


class Unit(NamedTuple):
    """What a recording's weights and ticks count."""

    name: str  # of weights, behind the names of columns
    text: Callable[[int], str]  # a weight as a reader likes it
    tick: str  # one tick
    whole: str  # what all weights are parts of
    grain: int  # the HTML page has weights in units of so many ns, or bytes


TIME: Final = Unit("ns", duration, "sample", "time", 1000)
BYTES: Final = Unit("bytes", size, "allocation", "memory", 1)


def unit_of(mode: str) -> Unit:
    """What the weights of a recording in this mode count: bytes in mode alloc, else time."""
    return BYTES if mode == "alloc" else TIME


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
