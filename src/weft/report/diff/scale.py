"""What a ns of either side counts, so that they compare as the normalisation says."""

from __future__ import annotations

from weft.profile.difference import Normalise
from weft.report.diff.content import Comparison, Side


def scales(comparison: Comparison) -> tuple[float, float]:
    """What a ns of `before`, and of `after`, is of all time before."""
    sides = comparison.before, comparison.after
    ours, theirs = (_divisor(side, comparison.difference.normalise) for side in sides)
    whole = _weight(comparison.before) / ours if ours else 0
    if not (whole and theirs):
        return 0.0, 0.0
    return 1 / ours / whole, 1 / theirs / whole


def _divisor(side: Side, normalise: Normalise) -> float:
    match normalise:
        case Normalise.SAMPLES:
            return _weight(side)
        case Normalise.TIME:
            return sum(max(1, profile.duration_ns) for profile in side.profiles) / 1e9
        case Normalise.NONE:
            return len(side.profiles)


def _weight(side: Side) -> int:
    return sum(profile.weight_ns for profile in side.profiles)
