"""How the time of a recording, or the memory, is spread over its length: what tells news from noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.capture import Capture
from weft.profile.tables import ACTIVE, Profile
from weft.profile.transform import walk
from weft.profile.units import BYTES, TIME, Unit
from weft.sample import Frame, State

BLOCKS: Final = 20  # of a recording; an even number

Function = tuple[str, str]  # name and file: lines move from one version of a program to the next
Times = dict[Function, list[int]]  # ns, or bytes, in each block


def by_name(frame: Frame) -> Function:
    """Key of a function, whichever line it begins in."""
    return frame.function, frame.file


@dataclass(frozen=True, slots=True)
class Series:
    """The time of each function in each block, in ns, or its bytes. A block is a stretch of one recording, or a whole
    one.

    Blocks of one recording are of equal length, in the order of time.
    """

    own: Times  # in its own code
    total: Times  # with all that it calls
    whole: list[int]
    recorded_ns: list[float]  # how long each block lasted
    recordings: list[float]  # how much of a recording each block is
    samples: float  # of equal weight that would say as much about the whole
    ordered: bool  # whether the blocks are stretches of one recording
    unit: Unit = TIME


def series_of(capture: Capture, profile: Profile) -> Series:
    """A recording in BLOCKS blocks; in a single one where the capture does not tell when its samples were taken."""
    spread = _by_block(capture, profile) if profile.timed else [_by_node(profile)]
    own: Times = {}
    total: Times = {}
    stacks = profile.stacks
    names = [by_name(frame) for frame in profile.frames]
    outermost = _outermost(profile, names)
    for block, times in enumerate(spread):
        for node in range(len(stacks) - 1, 0, -1):  # a stack after all that lie below it
            name = names[stacks.frame[node]]
            if times[node]:
                own.setdefault(name, [0] * len(spread))[block] += times[node]
    for block, times in enumerate(spread):
        for node in range(len(stacks) - 1, 0, -1):
            times[stacks.parent[node]] += times[node]
            if outermost[node] and times[node]:
                total.setdefault(names[stacks.frame[node]], [0] * len(spread))[block] += times[node]
    count = len(spread)
    return Series(
        own,
        total,
        [times[0] for times in spread],
        [max(1, profile.duration_ns) / count] * count,
        [1 / count] * count,
        _samples(profile),
        ordered=count > 1,
        unit=profile.unit,
    )


def joined(recordings: Sequence[Series]) -> Series:
    """Several recordings of one program as one series, in which each of them is a block."""
    own, total = ({}, {})  # type: tuple[Times, Times]
    for block, series in enumerate(recordings):
        for sums, times in ((own, series.own), (total, series.total)):
            for function, spread in times.items():
                sums.setdefault(function, [0] * len(recordings))[block] = sum(spread)
    return Series(
        own,
        total,
        [sum(series.whole) for series in recordings],
        [sum(series.recorded_ns) for series in recordings],
        [1.0] * len(recordings),
        sum(series.samples for series in recordings),
        ordered=False,
        unit=recordings[0].unit,
    )


def _by_node(profile: Profile) -> list[int]:
    times = [0] * len(profile.stacks)
    for total in profile.totals:
        times[total.stack] += total.weight_ns
    return times


def _by_block(capture: Capture, profile: Profile) -> list[list[int]]:
    """The time of each stack in each block. A run that lasts over several counts in each for its part; an allocation is
    asked for at once.
    """
    times = [[0] * len(profile.stacks) for _ in range(BLOCKS)]
    start_ns, length_ns = capture.start_ns, max(1, profile.duration_ns)
    shown = frozenset(State) if profile.idle else frozenset(ACTIVE)
    nodes = profile.nodes

    def block_of(at_ns: int) -> int:
        return min(BLOCKS - 1, max(0, (at_ns - start_ns) * BLOCKS // length_ns))

    def add(at_ns: int, weight_ns: int, node: int) -> None:
        first, last = block_of(at_ns - (weight_ns if profile.unit is TIME else 0)), block_of(at_ns)
        while first < last:
            part_ns = min(weight_ns, max(0, start_ns + (first + 1) * length_ns // BLOCKS - (at_ns - weight_ns)))
            times[first][node] += part_ns
            weight_ns -= part_ns
            first += 1
        times[last][node] += weight_ns

    for thread in {total.thread for total in profile.totals}:
        for runs in capture.runs(thread):
            for at, weight, state, stack in zip(runs.at_ns, runs.weight_ns, runs.state, runs.stack, strict=True):
                if state in shown:
                    add(at, weight, nodes[stack])
    for run in capture.standing():
        if run.state in shown:
            add(capture.written_ns, capture.written_ns - run.since_ns, nodes[run.stack])
    return times


def _outermost(profile: Profile, names: Sequence[Function]) -> bytearray:
    """Of each stack whether its innermost function is not among its callers: a function that recurses counts once."""
    stacks = profile.stacks
    result = bytearray(len(stacks))
    numbers: dict[Function, int] = {}
    of_frame = [numbers.setdefault(name, len(numbers)) for name in names]
    active = [0] * len(numbers)
    for node, entered in walk(stacks):
        number = of_frame[stacks.frame[node]]
        if entered:
            result[node] = active[number] == 0
        active[number] += 1 if entered else -1
    return result


def _samples(profile: Profile) -> float:
    """Kish's effective number: samples that weigh differently tell as much as fewer of equal weight.

    A sampled allocation stands for as many of its size as come to bytes_a_sample, and a larger one for itself.
    """
    squares = 0.0
    for total in profile.totals:
        most = total.weight_ns / profile.bytes_a_sample if profile.unit is BYTES else total.ticks
        squares += total.weight_ns**2 / max(1, min(total.ticks, most))
    return profile.weight_ns**2 / squares if squares else 0.0
