"""What samples add up to, kept up to date as they come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.capture import Runs
from weft.sample import State


class Cell(NamedTuple):
    """What is added up by itself."""

    thread: int  # Thread.id
    stack: int  # the capture's
    state: int


Part = tuple[Cell, int, int]  # weight in ns (mode alloc: bytes) and ticks


@dataclass(slots=True)
class Sums:
    """Weight and ticks of each cell, and the weight of each thread in each state."""

    cells: dict[Cell, tuple[int, int]] = field(default_factory=dict)
    times: dict[int, list[int]] = field(default_factory=dict)  # Thread.id -> by State

    def add(self, parts: Iterable[Part], sign: int = 1) -> None:
        """Add parts, or (sign -1) take them away."""
        for cell, weight, ticks in parts:
            before_weight, before_ticks = self.cells.get(cell, (0, 0))
            now = before_weight + sign * weight, before_ticks + sign * ticks
            if now == (0, 0):
                self.cells.pop(cell, None)
            else:
                self.cells[cell] = now
            times = self.times.get(cell.thread)
            if times is None:
                times = self.times[cell.thread] = [0] * len(State)
            times[cell.state] += sign * weight

    def parts(self) -> list[Part]:
        """All there is."""
        return [(cell, weight, ticks) for cell, (weight, ticks) in self.cells.items()]


class Ledger:
    """Costs by number (of a function, a line, a node of a flame graph): of their own, and with all that they call.

    `path` gives the numbers that a node of the stacks' tree counts for, the innermost first; if any.
    """

    def __init__(self, path: Callable[[int], tuple[int, ...]]) -> None:
        self._path = path
        self.self_ns: list[int] = []
        self.total_ns: list[int] = []
        self.ticks: list[int] = []  # of self_ns
        self.whole_ns = 0  # of all that was added
        self.empty_ns = self.empty_ticks = 0  # of it, what counts for no number

    def add(self, node: int, weight: int, ticks: int) -> None:
        """Add to what a node costs."""
        self.whole_ns += weight
        path = self._path(node)
        if not path:
            self.empty_ns += weight
            self.empty_ticks += ticks
            return
        more = max(path) + 1 - len(self.self_ns)
        if more > 0:
            for column in (self.self_ns, self.total_ns, self.ticks):
                column.extend([0] * more)
        self.self_ns[path[0]] += weight
        self.ticks[path[0]] += ticks
        total = self.total_ns
        for number in path:
            total[number] += weight


@dataclass(slots=True)
class _Slot:
    begin_ns: int
    end_ns: int
    sums: Sums = field(default_factory=Sums)


class Window:
    """The sums of the last stretch of time, as slots that pass out of it one by one.

    `of_moments`: weights are no times, and count as a whole at their moment, as bytes in mode alloc do.
    """

    def __init__(self, length_ns: int, *, of_moments: bool) -> None:
        self.length_ns = length_ns
        self.sums = Sums()
        self._of_moments = of_moments
        self._slots: list[_Slot] = []

    @property
    def begin_ns(self) -> int:
        """From when on it counts; 0 before anything has come."""
        return self._slots[0].begin_ns if self._slots else 0

    def clear(self, now_ns: int) -> None:
        """Begin anew at a time."""
        self.sums = Sums()
        self._slots = [_Slot(now_ns, now_ns)]

    def advance(self, begin_ns: int, now_ns: int, runs: Iterable[tuple[int, Runs]]) -> tuple[list[Part], list[Part]]:
        """Take what has come until now_ns: what was added, and what has passed out of the window.

        begin_ns: when the recording began, or what was seen before was left behind.
        """
        begin = self._slots[-1].end_ns if self._slots else begin_ns
        self._slots.append(_Slot(max(begin, now_ns - self.length_ns), now_ns))
        added: list[Part] = []
        for thread, columns in runs:
            rows = zip(columns.at_ns, columns.weight_ns, columns.ticks, columns.state, columns.stack, strict=True)
            for at, weight, ticks, state, stack in rows:
                self._spread(at, weight, ticks, Cell(thread, stack, state), added)
        self.sums.add(added)
        gone: list[Part] = []
        while self._slots[0].end_ns <= now_ns - self.length_ns:
            gone += self._slots.pop(0).sums.parts()
        self.sums.add(gone, -1)
        return added, gone

    def _spread(self, at: int, weight: int, ticks: int, cell: Cell, added: list[Part]) -> None:
        """Share a run out among the slots that it lasted in; its ticks are those of the last one."""
        begin, stop = at - (1 if self._of_moments else weight), at
        for slot in reversed(self._slots):
            if stop > slot.begin_ns:
                part = cell, weight if self._of_moments else stop - max(begin, slot.begin_ns), ticks
                slot.sums.add([part])
                added.append(part)
                ticks, stop = 0, slot.begin_ns
            if begin >= slot.begin_ns:
                return
