"""What each thread showed in the order of time, in a number of rows that a browser can hold."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, repeat
from typing import Final, NamedTuple

from weft.capture import Capture, Slice
from weft.profile.tables import Profile
from weft.profile.units import BYTES, Unit
from weft.profile.windows import Part
from weft.report.html.prefix import Prefix

MAX_ROWS: Final = 1_000_000  # runs, as they were recorded
MAX_SLICED: Final = 400_000  # rows, where there are more runs
SLICES: Final = (20, 400)  # of a thread that was seen all the time: at least, at most
DETAIL: Final = 100  # rows of a slice that are wanted

Columns = tuple[Iterable[int], Iterable[int], Iterable[int], Iterable[int], Iterable[int]]  # as those of Rows
Row = tuple[int, int, int, int]  # state, stack, weight, ticks


@dataclass(slots=True)
class Rows:
    """Rows of one thread after another, as columns. Times are in us since the recording began, weights in us or bytes.

    A row of bytes is of a moment: it takes no time.
    """

    count: list[int] = field(default_factory=list)  # of each thread
    start: array[int] = field(default_factory=lambda: array("q"))
    weight: array[int] = field(default_factory=lambda: array("q"))
    ticks: array[int] = field(default_factory=lambda: array("q"))
    state: array[int] = field(default_factory=lambda: array("q"))
    stack: array[int] = field(default_factory=lambda: array("q"))
    slice_us: int = 0  # within so much time, the order of the rows says nothing; 0: they are the runs themselves
    fine: tuple[int, int, int] | None = None  # from, to: there, slice_us is the third


def timeline(
    capture: Capture,
    profile: Profile,
    stacks: Prefix,
    part: Part | None = None,
    window_us: tuple[int, int] | None = None,
) -> Rows:
    """The rows of all threads: the runs, if there are no more than MAX_ROWS.

    Else the runs of some seconds are added up by stack and state, and lie side by side where the first of them began;
    of each such slice the heaviest stacks are told, and the time of the others as that of a common caller. No time and
    no sample is left out. Of a part, which is short, all runs are told; within a window as many as there is room for.
    """
    place_of = {stack: stacks.place[node] for stack, node in profile.nodes.items()}
    unit = profile.unit
    if part is not None:
        rows = _collect(profile, partial(_runs, part, unit, place_of))
        assert rows is not None  # it has no bound
        return rows
    standing = _standing(capture, place_of)

    def runs(thread: int) -> Iterator[Columns]:
        yield from _runs(capture, unit, place_of, thread)
        yield from standing.get(thread, ())

    rows = _collect(profile, runs, MAX_ROWS)
    if rows is not None:
        return rows
    plan = _plan(len(profile.threads), profile.duration_ns)

    def slices(thread: int, plan: Plan = plan, first: int = 0, last: int | None = None) -> Iterator[Columns]:
        for one in capture.slices(thread, plan.seconds, first, last):
            if told := _detailed(one, unit, place_of, stacks, plan.detail):
                state, stack, weight, ticks = (list(column) for column in zip(*told, strict=True))
                begin = (one.start_ns - capture.start_ns) // 1000
                starts = repeat(begin, len(told)) if unit is BYTES else accumulate(weight[:-1], initial=begin)
                yield starts, weight, ticks, state, stack

    def around(thread: int, window_us: tuple[int, int], finer: Plan | None) -> Iterator[Columns]:
        span = (capture.start_ns + us * 1000 for us in window_us)
        first, last = capture.batches_within(thread, *span)
        yield from slices(thread, last=first)
        yield from slices(thread, finer, first, last) if finer else _runs(capture, unit, place_of, thread, first, last)
        yield from slices(thread, first=last)
        yield from standing.get(thread, ())

    finer = None
    if window_us is not None:
        rows = _collect(profile, partial(around, window_us=window_us, finer=None), MAX_ROWS)
        if rows is None:
            finer = _plan(len(profile.threads), (window_us[1] - window_us[0]) * 1000)
    if rows is None:
        rows = _collect(profile, partial(around, window_us=window_us or (0, 0), finer=finer))
        assert rows is not None  # it has no bound but that of its slices
    rows.slice_us = plan.seconds * 1_000_000  # a batch is a second at most
    if window_us is not None:
        rows.fine = (*window_us, finer.seconds * 1_000_000 if finer else 0)
    return rows


class Plan(NamedTuple):
    """How time is cut into slices."""

    seconds: int  # of a slice; a batch is a second at most
    detail: int  # rows of a slice that are told


def _plan(threads: int, duration_ns: int) -> Plan:
    threads = max(threads, 1)
    count = min(max(MAX_SLICED // (threads * DETAIL), SLICES[0]), SLICES[1])
    return Plan(max(1, -(-duration_ns // 1_000_000_000) // count), max(MAX_SLICED // (threads * count) // 2, 1))


def _collect(profile: Profile, rows_of: Callable[[int], Iterator[Columns]], most: int | None = None) -> Rows | None:
    """All threads' rows; None if they are too many."""
    rows = Rows()
    for thread in profile.threads:
        before = len(rows.start)
        for start, weight, ticks, state, stack in rows_of(thread):
            rows.start.extend(start)
            rows.weight.extend(weight)
            rows.ticks.extend(ticks)
            rows.state.extend(state)
            rows.stack.extend(stack)
            if most is not None and len(rows.start) > most:
                return None
        rows.count.append(len(rows.start) - before)
    return rows


def _runs(
    recorded: Capture | Part,
    unit: Unit,
    place_of: dict[int, int],
    thread: int,
    first: int = 0,
    last: int | None = None,
) -> Iterator[Columns]:
    origin = recorded.start_ns
    for runs in recorded.runs(thread, first, last) if isinstance(recorded, Capture) else recorded.runs(thread):
        lasted = repeat(0, len(runs.at_ns)) if unit is BYTES else runs.weight_ns
        starts = [(at - ns - origin) // 1000 for at, ns in zip(runs.at_ns, lasted, strict=True)]
        weights = [weight // unit.grain for weight in runs.weight_ns]
        yield starts, weights, runs.ticks, runs.state, [place_of[stack] for stack in runs.stack]


def _detailed(one: Slice, unit: Unit, place_of: dict[int, int], stacks: Prefix, detail: int) -> list[Row]:
    """The rows of a slice: the heaviest `detail`, as many common callers, and one for the rest of each state."""
    size, coarse = len(stacks.parent), stacks.coarse
    # By state and stack in one number: there are millions in all slices.
    weights: dict[int, int] = {}
    samples: dict[int, int] = {}
    heaviest = sorted(zip(one.weight_ns, one.stack, one.state, one.ticks, strict=True), reverse=True)
    for number, (weight_ns, stack, state, ticks) in enumerate(heaviest):
        key = state * size + (place_of[stack] if number < detail else coarse[place_of[stack]])
        if key not in weights:
            if number >= detail and len(weights) >= 2 * detail:
                key = state * size + stacks.rest
            weights.setdefault(key, 0)
            samples.setdefault(key, 0)
        weights[key] += weight_ns // unit.grain
        samples[key] += ticks
    return [(key // size, key % size, weights[key], samples[key]) for key in sorted(weights)]


def _standing(capture: Capture, place_of: dict[int, int]) -> dict[int, list[Columns]]:
    """Of each thread that stands, the run that has not ended; it has no count of its own yet."""
    rate_hz = capture.meta.get("rate_hz", 1)
    standing: dict[int, list[Columns]] = {}
    for run in capture.standing():
        weight_ns = capture.written_ns - run.since_ns
        ticks = max(1, weight_ns * (rate_hz if isinstance(rate_hz, int) else 1) // 1_000_000_000)
        start = (run.since_ns - capture.start_ns) // 1000
        columns = (start,), (weight_ns // 1000,), (ticks,), (run.state,), (place_of[run.stack],)
        standing.setdefault(run.thread, []).append(columns)
    return standing
