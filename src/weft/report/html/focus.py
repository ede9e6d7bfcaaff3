"""What a page that is served looks at, and where that lies: there, as much is told apart as there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.profile.tables import EMPTY, Profile
from weft.sample import Frame


@dataclass(frozen=True, slots=True)
class Focus:
    """What is looked at. A page without one shows all of the recording alike."""

    path: tuple[int, ...] = ()  # frames by their number, the root first: what is zoomed into
    window_us: tuple[int, int] | None = None  # from, to: the chosen stretch of time, since the beginning


@dataclass(slots=True)
class Numbering:
    """The numbers by which a page knows frames and texts, in the order in which they came.

    Kept from one state of a growing capture to the next, they stay what they were: so do the places in a page, and
    links to them.
    """

    frames: dict[Frame, int] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)

    def frame(self, frame: Frame) -> int:
        """The number of a frame."""
        return self.frames.setdefault(frame, len(self.frames))

    def string(self, text: str) -> int:
        """The number of a text."""
        return self.strings.setdefault(text, len(self.strings))


def looked_at(profile: Profile, path: Sequence[Frame]) -> bytearray:
    """Of each stack of the profile whether it is beneath the path, or on the way there: 1 or 0.

    The path names functions: any line of them counts, and there may be frames between them that a page does not show.
    """
    wanted = [_function(frame) for frame in path]
    of_frame = [_function(frame) for frame in profile.frames]
    parents, frames = profile.stacks.parent, profile.stacks.frame
    found = [0] * len(parents)  # how much of the path leads to each
    for node in range(1, len(parents)):
        at = found[parents[node]]
        if at < len(wanted) and frames[node] != EMPTY and of_frame[frames[node]] == wanted[at]:
            at += 1
        found[node] = at
    inside = bytearray(at == len(wanted) for at in found)
    for node in range(len(parents) - 1, 0, -1):
        if inside[node]:
            inside[parents[node]] = 1
    return inside


def _function(frame: Frame) -> tuple[str, str, int, int]:
    return frame.function, frame.file, frame.first_line, frame.kind
