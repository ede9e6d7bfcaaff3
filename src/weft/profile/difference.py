"""What has changed between two recordings of a program, and what of that is more than noise.

docs/diff.md tells the method and why it is this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import inf, sqrt
from typing import Final

from weft.profile.matching import same_files
from weft.profile.series import Function, Series, Times
from weft.profile.student import quantile
from weft.profile.units import Unit

RARE: Final = 0.001  # share of all time; of functions below it nothing can be told
LEVEL: Final = 0.95


class Normalise(Enum):
    """What makes two recordings of different lengths comparable."""

    SAMPLES = "samples"  # the share of all samples, by the time that they stand for
    TIME = "time"  # the time for each second of recording
    NONE = "none"  # nothing: the same work from its beginning to its end, in each recording


@dataclass(frozen=True, slots=True)
class Change:
    """A function's time on both sides and how it has changed, all as parts of the time of all of `before`.

    With the level of the difference, all changes at once lie between their `low` and `high`.
    """

    before: float
    after: float
    low: float
    high: float

    @property
    def change(self) -> float:
        """How much it is more; below 0: less."""
        return self.after - self.before

    @property
    def is_news(self) -> bool:
        """Whether it is more than noise."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Row:
    """How one function has changed: in its own code, and with all that it calls."""

    function: str
    file: str  # of `before`, where it is there
    own: Change
    total: Change


@dataclass(frozen=True, slots=True)
class Difference:
    """Two recordings, or sets of them, compared. `whole_weight`: what the parts are parts of, as time or bytes; 0: as
    samples.
    """

    normalise: Normalise
    level: float
    whole: Change
    rows: list[Row]
    unit: Unit
    whole_weight: float
    comparisons: int  # which the intervals allow for
    from_runs: bool  # whether noise was measured from recording to recording, not within one
    blind: bool  # whether a side does not tell when its samples were taken: its noise is taken for that of sampling

    def slower(self, kind: str) -> list[Row]:
        """Functions that certainly take more than before, `own` or `total`, the largest change first."""
        found = [row for row in self.rows if getattr(row, kind).low > 0]
        return sorted(found, key=lambda row: -getattr(row, kind).change)

    def faster(self, kind: str) -> list[Row]:
        """Functions that certainly take less."""
        found = [row for row in self.rows if getattr(row, kind).high < 0]
        return sorted(found, key=lambda row: getattr(row, kind).change)

    def above(self, limit: float) -> Iterator[tuple[str, Change]]:
        """What certainly has grown, and by more than this part of the whole; `limit` 0.05: 5 %."""
        if self.whole.low > 0 and self.whole.change > limit:
            yield "all together", self.whole
        for row in self.slower("total"):
            if row.total.change > limit:
                yield row.function, row.total
        for row in self.slower("own"):
            if row.own.change > limit and row.total.low <= 0:
                yield row.function, row.own


def compare(before: Series, after: Series, normalise: Normalise, level: float = LEVEL) -> Difference:
    """Compares two series, function by function."""
    after = _renamed(after, same_files(_files(before), _files(after)))
    sides = _Side(before, normalise), _Side(after, normalise)
    unit = sides[0].value(before.whole) or 1.0
    functions = dict.fromkeys((*before.total, *after.total))
    pairs = {
        function: [(_times(a, before, function), _times(b, after, function)) for a, b in _kinds(before, after)]
        for function in functions
    }
    common = {function for function, both in pairs.items() if max(_pooled(*sides, *pair) for pair in both) >= RARE}
    told = {(tuple(a), tuple(b)) for function in common for a, b in pairs[function]}  # callers often equal each other
    alpha = (1 - level) / max(1, len(told))
    rows = []
    for function, both in pairs.items():
        chance = alpha if function in common else None
        own, total = (_change(*sides, *pair, unit, chance) for pair in both)
        rows.append(Row(*function, own, total))
    whole = _change(*sides, before.whole, after.whole, unit, 1 - level)
    return Difference(
        normalise,
        level,
        whole,
        rows,
        before.unit,
        unit if normalise is not Normalise.SAMPLES else 0.0,
        len(told),
        from_runs=min(len(before.whole), len(after.whole)) > 1 and not (before.ordered or after.ordered),
        blind=min(len(before.whole), len(after.whole)) < 2,
    )


class _Side:
    """A series and what its values are divided by."""

    def __init__(self, series: Series, normalise: Normalise) -> None:
        self.series = series
        self.whole = sum(series.whole)
        weights: dict[Normalise, Sequence[float]] = {
            Normalise.SAMPLES: series.whole,
            Normalise.TIME: [length / 1e9 for length in series.recorded_ns],
            Normalise.NONE: series.recordings,
        }
        self.weights = weights[normalise]
        self.weight = sum(self.weights)

    def value(self, times: Sequence[int]) -> float:
        """The normalised value of a function."""
        return sum(times) / self.weight if self.weight else 0.0

    def variances(self, times: Sequence[int]) -> list[tuple[float, float]]:
        """Estimates of the value's variance, with their degrees of freedom: by the blocks; by pairs of them, too."""
        value = self.value(times)
        rests = [time - value * weight for time, weight in zip(times, self.weights, strict=True)]
        pairs = [a + b for a, b in zip(rests[::2], rests[1::2], strict=True)] if self.series.ordered else rests
        return [self._variance(rests), self._variance(pairs)]

    def sampling_variance(self, share: float) -> float:
        """The variance of what has this share of all time, were its samples independent of each other."""
        if not self.weight or not self.series.samples:
            return 0.0
        return share * (1 - share) / self.series.samples * (self.whole / self.weight) ** 2

    def _variance(self, rests: Sequence[float]) -> tuple[float, float]:
        """The variance of a ratio of means, by what is left in each block: Cochran, Sampling Techniques, 2.11."""
        count = len(rests)
        if count < 2 or not self.weight:
            return 0.0, inf
        return count / (count - 1) * sum(rest * rest for rest in rests) / self.weight**2, count - 1


def _change(
    before: _Side, after: _Side, ours: Sequence[int], theirs: Sequence[int], unit: float, chance: float | None
) -> Change:
    """A change, with an interval that misses the truth with this chance; None: with one that says nothing."""
    values = before.value(ours), after.value(theirs)
    middle = values[1] - values[0]
    spread = inf if chance is None else _spread(before, after, ours, theirs, chance)
    return Change(values[0] / unit, values[1] / unit, (middle - spread) / unit, (middle + spread) / unit)


def _spread(before: _Side, after: _Side, ours: Sequence[int], theirs: Sequence[int], chance: float) -> float:
    """How far the change may be off: the most that any estimate of the noise says."""
    share = _pooled(before, after, ours, theirs)
    floors = before.sampling_variance(share), after.sampling_variance(share)
    spreads = []
    for a, b in zip(before.variances(ours), after.variances(theirs), strict=True):
        variance = max(a[0], floors[0]) + max(b[0], floors[1])
        spreads.append(quantile(chance, _freedom(a, b)) * sqrt(variance))
    return max(spreads)


def _freedom(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Degrees of freedom of a difference: Welch, Biometrika 34 (1947)."""
    whole = a[0] + b[0]
    if not whole:
        return min(a[1], b[1])
    return whole**2 / (a[0] ** 2 / a[1] + b[0] ** 2 / b[1])


def _pooled(before: _Side, after: _Side, ours: Sequence[int], theirs: Sequence[int]) -> float:
    """The share of all time of both sides, each side counting the same."""
    shares = [sum(times) / side.whole for side, times in ((before, ours), (after, theirs)) if side.whole]
    return sum(shares) / len(shares) if shares else 0.0


def _kinds(before: Series, after: Series) -> tuple[tuple[Times, Times], tuple[Times, Times]]:
    return (before.own, after.own), (before.total, after.total)


def _times(times: Times, series: Series, function: Function) -> list[int]:
    return times.get(function) or [0] * len(series.whole)


def _files(series: Series) -> Iterator[str]:
    return (file for _, file in series.total)


def _renamed(series: Series, same: dict[str, str]) -> Series:
    """The series with the names that files have on the other side."""
    own, total = (
        {(name, same.get(file, file)): times for (name, file), times in kind.items()}
        for kind in (series.own, series.total)
    )
    return replace(series, own=own, total=total)
