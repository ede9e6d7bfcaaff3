"""The profile: a recording as tables of frames, stacks and totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from weft.capture import Capture, Process, Thread
from weft.profile.units import BYTES, Unit, size, unit_of
from weft.sample import HIDDEN, Frame, FrameKind, State, is_body

EMPTY = -1  # the frame of the empty stack
_STATES = tuple(State)  # by their number
ACTIVE = (State.RUNNING, State.RUNNABLE, State.GIL)  # what is shown unless blocked threads are asked for too
_MOST_PERIODS = 4  # from one sample to the next; each claims one (native/sampler/pacing.cpp)


class View(NamedTuple):
    """What of a recording is shown."""

    idle: bool = False  # the time in which threads were blocked, too, and not only the states of ACTIVE
    all_frames: bool = False  # the interpreter's machinery, too


ACTIVE_VIEW = View()


@dataclass(slots=True)
class Stacks:
    """A prefix tree as two columns: node i is `frame[i]` called by node `parent[i]`, and parent[i] < i.

    Node 0 is the empty stack, no Python frame; its frame is EMPTY, and it is its own parent.
    """

    parent: list[int] = field(default_factory=lambda: [0])
    frame: list[int] = field(default_factory=lambda: [EMPTY])
    _nodes: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.parent)

    def add(self, parent: int, frame: int) -> int:
        """The node of `frame` called by `parent`; made if it is not there."""
        node = self._nodes.setdefault((parent, frame), len(self.parent))
        if node == len(self.parent):
            self.parent.append(parent)
            self.frame.append(frame)
        return node

    def path(self, node: int) -> list[int]:
        """The frames of a stack, the root first."""
        frames = []
        while node:
            frames.append(self.frame[node])
            node = self.parent[node]
        frames.reverse()
        return frames


class Total(NamedTuple):
    """What a stack of one thread in one state adds up to: real time (mode cpu: CPU time) in ns, and ticks.

    In mode alloc that is bytes, and allocations.
    """

    process: int  # Process.id
    thread: int  # Thread.id
    stack: int  # a node of Profile.stacks
    state: State
    weight_ns: int
    ticks: int


@dataclass(slots=True)
class Profile:
    """A recording, added up. Equal frames are one frame, and equal stacks one stack."""

    meta: dict[str, str | int]
    processes: dict[int, Process]  # by Process.id
    threads: dict[int, Thread]  # by Thread.id
    frames: list[Frame]
    stacks: Stacks
    totals: list[Total]
    nodes: dict[int, int]  # the capture's stack ids -> nodes of stacks
    duration_ns: int
    idle: bool  # whether blocked threads are among the totals

    @property
    def mode(self) -> str:
        """What was sampled and what weights count: wall, cpu, gil or alloc."""
        return str(self.meta.get("mode", "wall"))

    @property
    def unit(self) -> Unit:
        """What weights and ticks count."""
        return unit_of(self.mode)

    @property
    def rate_hz(self) -> int:
        """Samples a second, as asked for; at least 1."""
        rate = self.meta.get("rate_hz", 1)
        return max(1, rate) if isinstance(rate, int) else 1

    @property
    def pace(self) -> str:
        """How often samples were taken, in words; "" where another tool's profile does not tell."""
        if self.unit is BYTES:
            return f"one sample in {size(self.bytes_a_sample)}"
        return f"{self.rate_hz:,} Hz" if self.meta.get("rate_told", 1) else ""

    @property
    def spacing_ns(self) -> int:
        """How far apart two samples may be of a thread that did nothing else in between; 0: that cannot be known.

        In mode wall all that a thread does is told, in others it may have been blocked.
        """
        is_all_told = self.mode == "wall" and not self.imported
        return _MOST_PERIODS * 1_000_000_000 // self.rate_hz if is_all_told else 0

    @property
    def bytes_a_sample(self) -> int:
        """Mode alloc: how many bytes were asked for on the average from sample to sample; at least 1."""
        asked_for = self.meta.get("bytes_a_sample", 1)
        return max(1, asked_for) if isinstance(asked_for, int) else 1

    @property
    def start_unix_ns(self) -> int:
        """When the recording began, in ns since 1970; 0 if that is not known."""
        start = self.meta.get("start_unix_ns", 0)
        return start if isinstance(start, int) and start > 0 else 0

    @property
    def imported(self) -> str:
        """The form of another tool's profile that it was made of; "" if weft has recorded it."""
        return str(self.meta.get("imported", ""))

    @property
    def timed(self) -> bool:
        """Whether it is known when its samples were taken; of some imported files, it is not."""
        return self.meta.get("timed", 1) != 0

    @property
    def weight_ns(self) -> int:
        """The time, or the bytes, that all totals stand for."""
        return sum(total.weight_ns for total in self.totals)

    @property
    def ticks(self) -> int:
        """The samples, or the allocations, that all totals stand for."""
        return sum(total.ticks for total in self.totals)

    @classmethod
    def from_capture(cls, capture: Capture, view: View = ACTIVE_VIEW) -> Self:
        """Reads and adds up a whole capture; raises CaptureError."""
        profile = cls(
            meta=capture.meta,
            processes={process.id: process for process in capture.processes()},
            threads={thread.id: thread for thread in capture.threads()},
            frames=[],
            stacks=Stacks(),
            totals=[],
            nodes={0: 0},
            duration_ns=max(0, capture.written_ns - capture.start_ns),
            idle=True,
        )
        callers = profile._read_stacks(capture, all_frames=view.all_frames)
        # Where libc was asked for memory is its innermost frame, which tells less than who asked.
        is_allocator = profile.unit is BYTES and not view.all_frames
        profile._read_totals(capture, callers if is_allocator else {})
        return profile if view.idle else profile.active()

    def active(self) -> Self:
        """The same profile without the time in which threads were blocked."""
        return replace(self, idle=False, totals=[total for total in self.totals if total.state in ACTIVE])

    def _read_stacks(self, capture: Capture, *, all_frames: bool) -> dict[int, int]:
        """Returns the callers' nodes of those of the capture's stacks whose innermost frame is native."""
        callers: dict[int, int] = {}
        numbers: dict[int, tuple[int, ...]] = {}  # the capture's frame ids -> self.frames
        known: dict[Frame, int] = {}
        for number, functions in capture.frames():
            numbers[number] = tuple(
                known.setdefault(frame, len(known)) for frame in functions if all_frames or not frame.flags & HIDDEN
            )
        self.frames = list(known)
        # What is the same for each stack of a frame is looked up once: there may be a million.
        can_be_body = [frame.kind in (FrameKind.CYTHON, FrameKind.KERNEL) for frame in self.frames]
        native = {
            number
            for number, all_ in numbers.items()
            if any(self.frames[each].kind is FrameKind.NATIVE for each in all_)
        }
        for stack, parent, frame_id in capture.stacks():
            if frame_id not in numbers:
                raise capture.damaged(f"stack {stack} has a frame that is not there")
            node = self.nodes[parent]
            for shown in numbers[frame_id]:
                if can_be_body[shown] and node and is_body(self.frames[shown], self.frames[self.stacks.frame[node]]):
                    node = self.stacks.parent[node]  # it is shown in its wrapper's place
                node = self.stacks.add(node, shown)
            self.nodes[stack] = node
            if parent and frame_id in native:
                callers[stack] = self.nodes[parent]
        return callers

    def _read_totals(self, capture: Capture, shown: Mapping[int, int]) -> None:
        """Shown: nodes that some of the capture's stacks are shown as, in place of their own."""
        size = len(self.stacks)
        weights: dict[int, int] = {}  # by thread, node and state in one number: there may be millions
        samples: dict[int, int] = {}
        for thread, stack, state, weight_ns, ticks in _all_totals(capture, self.rate_hz):
            if thread not in self.threads or self.threads[thread].process not in self.processes:
                raise capture.damaged(f"thread {thread} or its process is not there")
            if stack not in self.nodes:
                raise capture.damaged(f"stack {stack} is not there")
            key = (thread * size + (shown[stack] if stack in shown else self.nodes[stack])) * len(_STATES) + state
            weights[key] = weights.get(key, 0) + weight_ns
            samples[key] = samples.get(key, 0) + ticks
        process = {thread.id: thread.process for thread in self.threads.values()}
        for key in sorted(weights):
            rest, state = divmod(key, len(_STATES))
            thread, node = divmod(rest, size)
            self.totals.append(Total(process[thread], thread, node, _STATES[state], weights[key], samples[key]))
        if max(self.weight_ns, self.ticks) >= 1 << 63:  # 292 years; formats hold 64 bits
            raise capture.damaged("its times add up to more than there is")


def _all_totals(capture: Capture, rate_hz: int) -> Iterator[tuple[int, int, int, int, int]]:
    yield from capture.totals()
    for run in capture.standing():
        weight_ns = capture.written_ns - run.since_ns
        # A run that has not ended has no count of its own yet.
        yield run.thread, run.stack, run.state, weight_ns, max(1, weight_ns * rate_hz // 1_000_000_000)
