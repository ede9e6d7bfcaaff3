"""Who makes whom wait for the GIL: as the kernel told it, as it was sampled, or as an estimate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from weft.capture import GilWait, Thread
from weft.live.stacks import LiveStacks
from weft.live.sums import Part
from weft.sample import Frame


@dataclass(frozen=True, slots=True)
class WaitRow:
    """Who waited for the GIL, and for whom; None: not known. Frames are None where they were not sampled."""

    waiter: Thread | None
    waiter_frame: Frame | None
    holder: Thread | None
    holder_frame: Frame | None
    weight_ns: int


class Waits:
    """What was read of them last. `is_sampled`: in mode gil, where only who holds it is sampled."""

    def __init__(self, stacks: LiveStacks, *, is_sampled: bool) -> None:
        self.is_sampled = is_sampled
        self.is_estimated = False
        self._waits: list[GilWait] = []
        self._before: dict[tuple[int, ...], int] = {}  # at the reset
        self._functions = _Functions(stacks)
        self._rows: list[WaitRow] | None = None  # None: to be made
        self._made: dict[int, int] | None = None

    def take(self, waits: list[GilWait], *, are_estimated: bool = False) -> None:
        """All there is, in place of what was told before: since the start, or (estimated) of a stretch of time."""
        self._waits, self.is_estimated = waits, are_estimated
        self._rows = self._made = None

    def reset(self) -> None:
        """Count from now on."""
        self._before = {wait[:4]: wait.weight_ns for wait in self._waits}
        self._rows = self._made = None

    def forget_names(self) -> None:
        """Stacks are told otherwise now."""
        self._functions.clear()
        self._rows = None

    def rows(self, threads: Mapping[int, Thread]) -> list[WaitRow]:
        """Those since the start, or the reset; the longest first."""
        if self._rows is None:
            sums: dict[tuple[int, int, int, int], int] = {}
            functions = self._functions
            for waiter, waiter_stack, holder, holder_stack, weight in self._waited():  # there are many
                key = waiter, functions[waiter_stack], holder, functions[holder_stack]
                sums[key] = sums.get(key, 0) + weight
            self._rows = self._named(sums, threads)
        return self._rows

    def held(self, threads: Mapping[int, Thread], parts: Iterable[Part]) -> list[WaitRow]:
        """Who held it, by what was sampled in mode gil."""
        sums: dict[tuple[int, int, int, int], int] = {}
        for cell, weight, _ in parts:
            key = 0, 0, cell.thread, self._functions[cell.stack]
            sums[key] = sums.get(key, 0) + weight
        return self._named(sums, threads)

    def made(self) -> dict[int, int]:
        """How long others are known to have waited for each thread (Thread.id)."""
        if self._made is None:
            self._made = {}
            for wait in [] if self.is_estimated else self._waited():
                self._made[wait.holder] = self._made.get(wait.holder, 0) + wait.weight_ns
        return self._made

    def _waited(self) -> list[GilWait]:
        if not self._before or self.is_estimated:
            return self._waits
        since = (wait._replace(weight_ns=wait.weight_ns - self._before.get(wait[:4], 0)) for wait in self._waits)
        return [wait for wait in since if wait.weight_ns > 0]

    def _named(self, sums: dict[tuple[int, int, int, int], int], threads: Mapping[int, Thread]) -> list[WaitRow]:
        frames = self._functions.frames
        rows = [
            WaitRow(threads.get(waiter), frames[waits], threads.get(holder), frames[holds], weight)
            for (waiter, waits, holder, holds), weight in sums.items()
            if weight > 0 and (waiter in threads or not waiter)
        ]
        return sorted(rows, key=attrgetter("weight_ns"), reverse=True)


class _Functions(dict[int, int]):
    """The innermost function of each stack, as a number of `frames`; 0: none. It is looked up once."""

    def __init__(self, stacks: LiveStacks) -> None:
        super().__init__()
        self._stacks = stacks
        self.clear()

    def clear(self) -> None:
        super().clear()
        self.frames: list[Frame | None] = [None]
        self._numbers: dict[Frame, int] = {}
        self[0] = 0

    def __missing__(self, stack: int) -> int:
        frame = self._stacks.innermost(stack)
        number = 0
        if frame is not None:
            function = frame._replace(line=0, end_line=0, column=0, end_column=0)
            number = self._numbers.setdefault(function, len(self.frames))
            if number == len(self.frames):
                self.frames.append(function)
        self[stack] = number
        return number
