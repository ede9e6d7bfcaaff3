"""Parts of a recording by time: what it was doing from one moment to another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from weft.capture import Capture
from weft.profile.tables import Profile, Total
from weft.sample import State

Window = tuple[int, int]  # from, to: CLOCK_MONOTONIC of the recorded machine, in ns


def within(capture: Capture, profile: Profile, windows: Sequence[Window]) -> list[Profile]:
    """A profile of each window, blocked threads among them. Windows are in the order of time and do not overlap.

    `profile` is the whole capture's. A run that crosses an edge counts in either window for its part.
    """
    sums: list[dict[tuple[int, int, int], list[int]]] = [{} for _ in windows]
    starts = [start for start, _ in windows]

    def add(thread: int, at_ns: int, weight_ns: int, ticks: int, state: int, stack: int) -> None:
        begin_ns = at_ns - weight_ns
        number = max(0, bisect_right(starts, begin_ns) - 1)
        while number < len(windows) and starts[number] < at_ns:
            part_ns = min(at_ns, windows[number][1]) - max(begin_ns, starts[number])
            if part_ns > 0:
                total = sums[number].setdefault((thread, profile.nodes[stack], state), [0, 0])
                total[0] += part_ns
                total[1] += ticks * part_ns // weight_ns
            number += 1

    for thread in profile.threads:
        for runs in capture.runs(thread):
            for run in zip(runs.at_ns, runs.weight_ns, runs.ticks, runs.state, runs.stack, strict=True):
                add(thread, *run)
    for standing in capture.standing():
        weight_ns = capture.written_ns - standing.since_ns
        ticks = weight_ns * profile.rate_hz // 1_000_000_000
        add(standing.thread, capture.written_ns, weight_ns, ticks, standing.state, standing.stack)
    return [
        replace(
            profile,
            idle=True,
            duration_ns=end - start,
            totals=[
                Total(profile.threads[thread].process, thread, node, State(state), *total)
                for (thread, node, state), total in sorted(found.items())
            ],
        )
        for (start, end), found in zip(windows, sums, strict=True)
    ]
