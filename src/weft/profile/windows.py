"""Parts of a recording by time: what it was doing from one moment to another."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft._native import RunEncoder, decode_runs
from weft.capture import Capture, Runs
from weft.profile.tables import Profile, Total
from weft.sample import State

Window = tuple[int, int]  # from, to: CLOCK_MONOTONIC of the recorded machine, in ns


@dataclass(frozen=True, slots=True)
class Part:
    """What a window has. `start_ns` and `runs` are as those of a Capture; a run that stands is one of them."""

    start_ns: int
    profile: Profile  # with the time in which threads were blocked
    batches: dict[int, tuple[int, bytes]]  # of each thread: the time that its runs count from, and these, encoded

    def runs(self, thread: int) -> Iterator[Runs]:
        """The runs of one thread in the order of time."""
        if thread in self.batches:
            start_ns, data = self.batches[thread]
            yield Runs(*(array("q", column) for column in decode_runs(data, start_ns)))


def within(capture: Capture, profile: Profile, windows: Sequence[Window]) -> list[Part]:
    """The part of each window. Windows are in the order of time and do not overlap.

    `profile` is the whole capture's. A run that crosses an edge counts in either window for its part of the time, and
    as one sample at least.
    """
    sums: list[dict[tuple[int, int, int], list[int]]] = [{} for _ in windows]
    encoders: list[dict[int, RunEncoder]] = [{} for _ in windows]
    starts = [start for start, _ in windows]

    def add(thread: int, at_ns: int, weight_ns: int, ticks: int, state: int, stack: int) -> None:
        begin_ns = at_ns - weight_ns
        number = max(0, bisect_right(starts, begin_ns) - 1)
        while number < len(windows) and starts[number] < at_ns:
            end_ns = min(at_ns, windows[number][1])
            part_ns = end_ns - max(begin_ns, starts[number])
            if part_ns > 0:
                part_ticks = max(1, ticks * part_ns // weight_ns)
                encoder = encoders[number].setdefault(thread, RunEncoder())
                encoder.append(end_ns, part_ns, part_ticks, state, stack)
                total = sums[number].setdefault((thread, profile.nodes[stack], state), [0, 0])
                total[0] += part_ns
                total[1] += part_ticks
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
        Part(start, _profile(profile, end - start, found), dict(_batches(of_threads)))
        for (start, end), found, of_threads in zip(windows, sums, encoders, strict=True)
    ]


def _profile(whole: Profile, duration_ns: int, found: dict[tuple[int, int, int], list[int]]) -> Profile:
    totals = [
        Total(whole.threads[thread].process, thread, node, State(state), *total)
        for (thread, node, state), total in sorted(found.items())
    ]
    return replace(whole, idle=True, duration_ns=duration_ns, totals=totals)


def _batches(encoders: dict[int, RunEncoder]) -> Iterator[tuple[int, tuple[int, bytes]]]:
    for thread, encoder in encoders.items():
        start_ns, _, data = encoder.take()
        yield thread, (start_ns, data)
