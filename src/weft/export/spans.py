"""A recording in the order of time, for the formats that show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from weft.capture import Capture
from weft.profile.tables import ACTIVE, EMPTY, Profile
from weft.profile.transform import Paths
from weft.sample import State

LONGEST: Final = 500  # frames of a stack that a time line shows


class Span(NamedTuple):
    """A thread showed one stack in one state from start_ns to end_ns; stack is a node of Profile.stacks."""

    start_ns: int
    end_ns: int
    stack: int
    state: State


class Event(NamedTuple):
    """A frame began or ended."""

    at_ns: int
    begins: bool
    frame: int  # as in the path of Paths, or EMPTY


def spans(capture: Capture, profile: Profile, thread: int) -> Iterator[Span]:
    """The spans of one thread; none overlap. Between them it was blocked (unless profile.idle), or samples are lost."""
    shown = frozenset(State) if profile.idle else frozenset(ACTIVE)
    slack_ns = profile.spacing_ns or 1_000_000_000 // profile.rate_hz // 2  # between one run and the next
    return (span for span in _joined(_runs(capture, profile, thread), slack_ns) if span.state in shown)


def _joined(runs: Iterator[Span], slack_ns: int) -> Iterator[Span]:
    """Runs in the order of time, without overlaps, nor gaps of up to slack_ns."""
    last: Span | None = None
    for span in runs:
        if last is None:
            last = span
        elif span.start_ns - last.end_ns > slack_ns:
            yield last
            last = span
        elif (span.stack, span.state) == (last.stack, last.state):
            last = last._replace(end_ns=max(last.end_ns, span.end_ns))
        else:
            yield last
            last = span._replace(start_ns=last.end_ns, end_ns=max(last.end_ns, span.end_ns))
    if last is not None:
        yield last


def _runs(capture: Capture, profile: Profile, thread: int) -> Iterator[Span]:
    for runs in capture.runs(thread):
        for at, weight, state, stack in zip(runs.at_ns, runs.weight_ns, runs.state, runs.stack, strict=True):
            yield Span(at - weight, at, profile.nodes[stack], State(state))
    for run in capture.standing():
        if run.thread == thread:
            yield Span(run.since_ns, capture.written_ns, profile.nodes[run.stack], State(run.state))


def events(timeline: Iterator[tuple[int, int, int]], paths: Paths) -> Iterator[Event]:
    """When frames begin and end; frames that one stack shares with the next go on. Takes (start_ns, end_ns, node)."""
    current: list[int] = []
    last_ns = 0
    for start_ns, end_ns, node in timeline:
        path = paths(node) or [EMPTY]
        common = 0
        if start_ns == last_ns:
            for ours, theirs in zip(current, path, strict=False):
                if ours != theirs:
                    break
                common += 1
        for frame in reversed(current[common:]):
            yield Event(last_ns, False, frame)
        for frame in path[common:]:
            yield Event(start_ns, True, frame)
        current, last_ns = path, end_ns
    for frame in reversed(current):
        yield Event(last_ns, False, frame)
