"""Compares recordings: the way from two paths to a difference."""

from __future__ import annotations

from pathlib import Path

from weft.errors import CaptureError
from weft.export import CAPTURE_ENDING, ENDINGS
from weft.imports import open_recording
from weft.profile.difference import LEVEL, Normalise, compare
from weft.profile.merged import merge
from weft.profile.quality import Account
from weft.profile.series import Series, joined, series_of
from weft.profile.tables import ACTIVE_VIEW, Profile, View
from weft.profile.units import Unit
from weft.report.diff.content import Comparison, Side


def compare_recordings(
    before: Path, after: Path, normalise: Normalise = Normalise.SAMPLES, level: float = LEVEL, view: View = ACTIVE_VIEW
) -> Comparison:
    """Compares two recordings, or two folders of recordings of the same work each; raises CaptureError."""
    (ours, our_series), (theirs, their_series) = _side(before, view), _side(after, view)
    if our_series.unit is not their_series.unit:
        raise CaptureError(_unlike(before, our_series.unit, after, their_series.unit))
    difference = compare(our_series, their_series, normalise, level)
    return Comparison(ours, theirs, difference, merge(ours.profiles, theirs.profiles))


def _side(path: Path, view: View) -> tuple[Side, Series]:
    files = recordings_in(path) if path.is_dir() else [path]
    side = Side(path, [], [])
    spread = []
    for file in files:
        with open_recording(file) as capture:
            profile = Profile.from_capture(capture, view)
            if side.profiles and profile.unit is not side.unit:
                raise CaptureError(_unlike(files[0], side.unit, file, profile.unit))
            side.profiles.append(profile)
            side.accounts.append(Account.from_capture(capture))
            spread.append(series_of(capture, profile))
    if not any(profile.weight_ns for profile in side.profiles):
        blocked = "" if view.idle else "; --idle takes blocked threads, too"
        raise CaptureError(f"{path} has no samples to compare{blocked}")
    return side, spread[0] if len(spread) == 1 else joined(spread)


def _unlike(one: Path, its: Unit, other: Path, others: Unit) -> str:
    return f"{one} tells of {its.whole}, and {other} of {others.whole}: give recordings of one kind"


def recordings_in(folder: Path) -> list[Path]:
    """The recordings of a folder; raises CaptureError where there is none."""
    endings = (CAPTURE_ENDING, *(ENDINGS[name] for name in ("collapsed", "speedscope", "pprof")))
    found = sorted(file for file in folder.iterdir() if file.name.endswith(endings))
    if not found:
        raise CaptureError(f"{folder} is a folder without recordings; give a capture, or a folder of captures")
    return found
