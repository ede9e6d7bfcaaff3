"""What the live view knows: fed with what has come, asked for tables. It draws nothing, and has no clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from weft.capture import Process, Runs, Thread
from weft.live.follow import News
from weft.live.stacks import Flame, Groups, LiveStacks, Sight
from weft.live.sums import Cell, Ledger, Part, Sums, Window
from weft.live.waits import WaitRow, Waits
from weft.profile.names import NO_FRAME
from weft.profile.quality import Account
from weft.profile.tables import ACTIVE
from weft.profile.transform import Cost, by_function, by_line
from weft.profile.units import BYTES, unit_of
from weft.sample import Frame, FrameKind, State

WINDOW_NS: Final = 10_000_000_000  # what "now" means
_STALE_NS: Final = 2_000_000_000  # after which a thread that was sampled last then is not known to be doing that


class Pane(Enum):
    """What is shown."""

    FUNCTIONS = "functions"
    LINES = "lines"
    FLAME = "flame"
    THREADS = "threads"
    GIL = "GIL"


@dataclass(frozen=True, slots=True)
class Settings:
    """What of it, and how."""

    pane: Pane = Pane.FUNCTIONS
    since_start: bool = False  # or since the reset; else the last WINDOW_NS
    idle: bool = False
    native: bool = True
    all_frames: bool = False
    inverted: bool = False  # the flame graph: from what runs up to its callers
    thread: int | None = None  # Thread.id; None: all


@dataclass(frozen=True, slots=True)
class Row:
    """A function, or a line of one, and what it costs."""

    key: tuple[str, str, int]
    frame: Frame  # one of those that it stands for
    cost: Cost


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread: what it does (None: not known), and the time that it spent in each state."""

    thread: Thread
    state: State | None
    times: list[int]  # by State, in ns
    frame: Frame | None  # the innermost Python one of its last stack
    made_wait_ns: int  # how long others waited for the GIL while it held it, since the start or the reset


class Model:
    """The state of a recording as far as it has been read. Methods raise CaptureError where it is damaged."""

    def __init__(self, settings: Settings, *, mode: str) -> None:
        self.settings = settings
        self.unit = unit_of(mode)
        self.account: Account | None = None
        self.threads: dict[int, Thread] = {}
        self.processes: dict[int, Process] = {}
        self.start_ns = self.written_ns = 0
        self.ended = False
        self.rate_hz = 1
        self._reset_ns: int | None = None
        self._stacks = LiveStacks(self._sight, allocates=self.unit is BYTES)
        self._total = Sums()
        self._window = Window(WINDOW_NS, of_moments=self.unit is BYTES)
        self._standing: dict[int, tuple[int, int, int]] = {}  # thread -> stack, state, since
        self._last: dict[int, tuple[int, int, int]] = {}  # thread -> at, stack, state of its last run
        self.waits = Waits(self._stacks, is_sampled=mode == "gil")
        self._counted: list[Part] = []  # what of those that stand still is in the ledger
        self._open_ledger()

    @property
    def reset_ns(self) -> int | None:
        """When it was reset; None: it was not."""
        return self._reset_ns

    @property
    def span_ns(self) -> int:
        """The length of the time that is shown."""
        return max(0, self.written_ns - self._begin_ns)

    @property
    def since_ns(self) -> int:
        """The time since the start, or the reset."""
        return max(0, self.written_ns - (self.start_ns if self._reset_ns is None else self._reset_ns))

    @property
    def whole_ns(self) -> int:
        """What all costs that are shown add up to."""
        return self._ledger.whole_ns

    @property
    def _begin_ns(self) -> int:
        begin = self.start_ns if self._reset_ns is None else self._reset_ns
        return begin if self.settings.since_start else max(begin, self._window.begin_ns)

    def feed(self, news: News, named: Iterable[tuple[int, tuple[Frame, ...]]] = ()) -> None:
        """Take what has come. `named`: names for frames of this or earlier news, better than those they came with."""
        self.start_ns, self.written_ns, self.ended = news.start_ns, news.written_ns, news.ended
        self.threads, self.processes, self.account = news.threads, news.processes, news.account
        rate = news.meta.get("rate_hz", 1)
        self.rate_hz = max(1, rate) if isinstance(rate, int) else 1
        self._stacks.add_frames(news.frames)
        self._stacks.add_frames(named)
        if news.anew:
            self.rename((), news.stacks)
        else:
            self._stacks.add_stacks(news.stacks)
        self._count_standing(-1)
        begin = self.start_ns if self._reset_ns is None else self._reset_ns
        added, gone = self._window.advance(begin, self.written_ns, news.late_runs)
        came = [(Cell(*total[:3]), *total[3:]) for total in news.totals]
        if self._reset_ns is not None:
            came = list(self._since(self._reset_ns, news.late_runs))
        self._total.add(came)
        if self.settings.since_start:
            self._note(came)
        else:
            self._note(added)
            self._note(gone, -1)
        for thread, runs in news.late_runs:
            if len(runs.at_ns):
                self._last[thread] = runs.at_ns[-1], runs.stack[-1], runs.state[-1]
        self._standing = {run.thread: (run.stack, run.state, run.since_ns) for run in news.standing}
        self._count_standing(1)

    def rename(
        self, named: Iterable[tuple[int, tuple[Frame, ...]]], stacks: Iterable[tuple[int, int, int]] | None = None
    ) -> None:
        """Frames have other names now; `stacks`: all of them as they are told now, if that may have changed."""
        self._stacks.add_frames(named)
        if stacks is not None:
            self._stacks.retell(stacks)
        self._stacks.rebuild()
        self._open_ledger()

    def change(self, **changes: object) -> None:
        """Show something else: see Settings."""
        before, self.settings = self.settings, replace(self.settings, **changes)  # type: ignore[arg-type]
        if self._sight != self._stacks.sight:
            self._stacks.sight = self._sight
            self._stacks.rebuild()
        if before != self.settings:
            self._open_ledger()

    def reset(self) -> None:
        """Forget what was counted: everything counts from now on."""
        self._reset_ns = self.written_ns
        self._total = Sums()
        self._window.clear(self.written_ns)
        self.waits.reset()
        self._open_ledger()

    def rows(self) -> list[Row]:
        """The functions, or (in that pane) the lines, in no order, and the empty stack; none costs nothing."""
        ledger, groups = self._ledger, self._groups
        columns = zip(ledger.self_ns, ledger.total_ns, ledger.ticks, strict=True)
        rows = [
            Row(groups.keys[number], groups.samples[number], Cost(*costs))
            for number, costs in enumerate(columns)
            if costs[1] > 0
        ]
        if ledger.empty_ns > 0:
            cost = Cost(ledger.empty_ns, ledger.empty_ns, ledger.empty_ticks)
            rows.append(Row((NO_FRAME, "", 0), Frame(FrameKind.MARKER, NO_FRAME, "", 0), cost))
        return rows

    def flame(self) -> tuple[Flame, Ledger]:
        """The flame graph's tree, and what its nodes cost."""
        return self._flame, self._ledger

    def thread_rows(self) -> list[ThreadRow]:
        """All threads that have not ended, or that something was counted of."""
        times = self._shown_sums.times
        shown: dict[int, list[int]] = {thread: list(states) for thread, states in times.items()}
        for (thread, _, state), weight, _ in self._standing_parts():
            shown.setdefault(thread, [0] * len(State))[state] += weight
        made = self.waits.made()
        return [
            ThreadRow(thread, state, shown.get(thread.id, [0] * len(State)), frame, made.get(thread.id, 0))
            for thread in self.threads.values()
            if thread.end_ns is None or any(shown.get(thread.id, ()))
            for state, frame in [self._doing(thread)]
        ]

    def wait_rows(self) -> list[WaitRow]:
        """Who made whom wait for the GIL, or in mode gil who held it; the longest first. See Waits."""
        if self.waits.is_sampled:
            return self.waits.held(self.threads, self._shown_sums.parts())
        return self.waits.rows(self.threads)

    def _doing(self, thread: Thread) -> tuple[State | None, Frame | None]:
        """What a thread does, as far as is known."""
        if thread.id in self._standing:
            stack, state, _ = self._standing[thread.id]
        elif thread.id in self._last:
            at, stack, state = self._last[thread.id]
            if thread.end_ns is not None or self.written_ns - at > _STALE_NS:
                return None, self._stacks.innermost(stack)
        else:
            return None, None
        return State(state), self._stacks.innermost(stack)

    @property
    def _shown_sums(self) -> Sums:
        return self._total if self.settings.since_start else self._window.sums

    @property
    def _sight(self) -> Sight:
        return Sight(self.settings.native, self.settings.all_frames)

    def _open_ledger(self) -> None:
        """Add up what the pane shows anew, after what it counts has changed."""
        key: Callable[[Frame], tuple[str, str, int]] = by_line if self.settings.pane is Pane.LINES else by_function
        self._groups = Groups(self._stacks, key)
        self._flame = Flame(self._stacks, by_function, inverted=self.settings.inverted)
        is_flame = self.settings.pane is Pane.FLAME
        self._ledger = Ledger(self._flame.path if is_flame else self._groups.path)
        self._counted = []
        self.waits.forget_names()
        self._note(self._shown_sums.parts())
        self._count_standing(1)

    def _note(self, parts: Iterable[Part], sign: int = 1) -> None:
        """Add parts to what is shown, or (sign -1) take them away."""
        if self.settings.pane in (Pane.THREADS, Pane.GIL):  # which show no costs; they are added up when they are shown
            return
        thread, idle = self.settings.thread, self.settings.idle
        for cell, weight, ticks in parts:
            if (idle or cell.state in ACTIVE) and thread in (None, cell.thread):
                self._ledger.add(self._stacks.node(cell.stack), sign * weight, sign * ticks)

    def _count_standing(self, sign: int) -> None:
        """Count what those that stand still add up to so far, or take back what was counted."""
        if sign > 0:
            self._counted = self._standing_parts()
        self._note(self._counted, sign)

    def _standing_parts(self) -> list[Part]:
        parts = []
        for thread, (stack, state, since) in self._standing.items():
            weight = self.written_ns - max(since, self._begin_ns if self._clips else since)
            if weight > 0:
                parts.append((Cell(thread, stack, state), weight, max(1, weight * self.rate_hz // 1_000_000_000)))
        return parts

    @property
    def _clips(self) -> bool:
        """Whether what began before the time that is shown counts in part only."""
        return self._reset_ns is not None or not self.settings.since_start

    def _since(self, since_ns: int, runs: Iterable[tuple[int, Runs]]) -> Iterable[Part]:
        """What runs add up to from a time on."""
        of_moments = self.unit is BYTES
        for thread, columns in runs:
            rows = zip(columns.at_ns, columns.weight_ns, columns.ticks, columns.state, columns.stack, strict=True)
            for at, weight, ticks, state, stack in rows:
                if at > since_ns:
                    yield Cell(thread, stack, state), weight if of_moments else min(weight, at - since_ns), ticks
