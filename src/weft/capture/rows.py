"""What a capture holds, as types. Times are CLOCK_MONOTONIC of the recording machine, in ns."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import NamedTuple


class Process(NamedTuple):
    """One process of the recording; `parent` is a Process.id, None for the first and for those attached to."""

    id: int
    pid: int
    parent: int | None
    command: tuple[str, ...]
    runtime: str | None
    start_ns: int
    end_ns: int | None
    exit_status: int | None


class Thread(NamedTuple):
    """One thread of the recording; `process` is a Process.id."""

    id: int
    process: int
    tid: int
    name: str
    start_ns: int
    end_ns: int | None


class Mapping(NamedTuple):
    """A file mapped into a process; addresses are unsigned."""

    process: int
    start: int
    end: int
    offset: int
    path: str
    build_id: str | None
    seen_ns: int


class Place(NamedTuple):
    """Where a native frame lies: at an address in a module, by its number in Capture.modules(); None: in the kernel."""

    frame: int
    module: int | None
    address: int


class Runs(NamedTuple):
    """Runs of one thread in the order of time, as columns of equal length; docs/capture.md tells what they mean."""

    at_ns: array[int]
    weight_ns: array[int]
    ticks: array[int]
    state: array[int]
    stack: array[int]


class Slice(NamedTuple):
    """The runs of one thread in a stretch of time, added up by stack and state; columns of equal length."""

    start_ns: int  # when the first run began
    stack: array[int]
    state: array[int]
    weight_ns: array[int]
    ticks: array[int]


class Standing(NamedTuple):
    """A run that has not ended: it lasts from since_ns to the capture's written_ns."""

    thread: int
    stack: int
    state: int
    since_ns: int


class GilWait(NamedTuple):
    """A thread, in a stack, waited for the GIL while another held it, in another stack.

    `waiter` and `holder` are Thread.ids, stacks are ids of Capture.stacks(). holder 0: it is not known who held it;
    holder_stack 0: the holder was not sampled meanwhile.
    """

    waiter: int
    waiter_stack: int
    holder: int
    holder_stack: int
    weight_ns: int


class Source(NamedTuple):
    """The text of a file that frames name, as it was when the recording ended; None: it could not be had.

    `problem` says why not, or what speaks against the text; "" if nothing does.
    """

    file: str
    text: str | None
    problem: str


@dataclass(frozen=True, slots=True)  # `count` is a method of tuples
class Loss:
    """Samples that are incomplete, degraded or missing; weight_ns is the time that the missing ones stood for."""

    process: int
    reason: str
    count: int
    weight_ns: int


def column_of(packed: bytes) -> array[int]:
    """A column as _native gives it: 64-bit integers of this machine."""
    column = array("q")
    column.frombytes(packed)
    return column
