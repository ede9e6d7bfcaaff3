"""Numbers as a reader likes them."""

from __future__ import annotations

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
    """A part in percent: 0.3 %, 12.3 %, 100 %; 0 % of nothing."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.1f} %" if 0 < part != whole else f"{percent:.0f} %"


def amount(count: int, noun: str) -> str:
    """A count with its noun: 1 sample, 2,000 samples."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
