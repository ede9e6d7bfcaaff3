"""Collapsed stacks, the text that flame graph tools read: root first, `;` between frames, a count at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.capture import Capture
from weft.profile.names import ELIDED_FRAMES, NO_FRAME, escape_one, frame_label, process_name
from weft.profile.tables import Profile, View
from weft.profile.transform import ELIDED, fold, paths_within
from weft.profile.units import BYTES

MOST_FRAMES: Final = 10_000_000  # in one file, about 300 MB; beyond it, stacks are shown with
LONGEST: Final = 1_000  # frames at most


def render(capture: Capture, view: View) -> Iterator[bytes]:
    """One line a stack; its count is in samples, or in mode alloc in bytes.

    Where there are several processes, each has a frame at the root.
    """
    profile = Profile.from_capture(capture, view)
    folded = fold(profile, frame_label)
    counts: dict[tuple[int, int], int] = {}
    for total in profile.totals:
        key = total.process, folded.nodes[total.stack]
        counts[key] = counts.get(key, 0) + (total.weight_ns if profile.unit is BYTES else total.ticks)
    roots = dict.fromkeys((process for process, _ in counts), "")
    if len(roots) > 1:
        for number in roots:
            process = profile.processes[number]
            roots[number] = _escape(f"process {process_name(process)} {process.pid}") + ";"
    labels = {index: _escape(label) for index, label in enumerate(folded.keys)}
    labels[ELIDED] = ELIDED_FRAMES
    paths = paths_within(folded.stacks, (node for _, node in counts), MOST_FRAMES, LONGEST)
    for (number, node), count in counts.items():
        stack = ";".join([labels[frame] for frame in paths(node)]) or NO_FRAME
        yield f"{roots[number]}{stack} {count}\n".encode()


def _escape(label: str) -> str:
    return label.replace(";", escape_one(";"))
