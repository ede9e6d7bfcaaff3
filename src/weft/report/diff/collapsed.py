"""A difference as collapsed stacks with two counts, as difffolded.pl writes them: flamegraph.pl, inferno."""

from __future__ import annotations

from collections.abc import Iterator

from weft.export.collapsed import LONGEST, MOST_FRAMES
from weft.profile.difference import Normalise
from weft.profile.names import ELIDED_FRAMES, NO_FRAME, escape, escape_one, short_file
from weft.profile.transform import ELIDED, paths_within
from weft.profile.units import BYTES
from weft.report.diff.content import Comparison


def render(comparison: Comparison) -> Iterator[bytes]:
    """One line a stack: root first, samples (or bytes) before and after; before, scaled as the normalisation says."""
    merged = comparison.merged
    scale = _scale(comparison)
    labels = {
        number: _label(function, file).replace(";", escape_one(";"))
        for number, (function, file) in enumerate(merged.functions)
    }
    labels[ELIDED] = ELIDED_FRAMES
    before, after = merged.weight_ns if comparison.before.unit is BYTES else merged.ticks
    shown = [node for node in range(len(merged.stacks)) if before[node] or after[node]]
    paths = paths_within(merged.stacks, shown, MOST_FRAMES, LONGEST)
    for node in shown:
        stack = ";".join([labels[frame] for frame in paths(node)]) or NO_FRAME
        yield f"{stack} {round(before[node] * scale)} {after[node]}\n".encode()


def _scale(comparison: Comparison) -> float:
    """What a sample of `before` counts."""
    sides = comparison.before.profiles, comparison.after.profiles
    match comparison.difference.normalise:
        case Normalise.SAMPLES:
            ours, theirs = (
                sum(profile.weight_ns if profile.unit is BYTES else profile.ticks for profile in side) for side in sides
            )
        case Normalise.TIME:
            ours, theirs = (sum(profile.duration_ns for profile in side) for side in sides)
        case Normalise.NONE:
            ours, theirs = map(len, sides)
    return theirs / ours if ours and theirs else 1.0


def _label(function: str, file: str) -> str:
    return f"{escape(function)} ({escape(short_file(file))})" if file else escape(function)
