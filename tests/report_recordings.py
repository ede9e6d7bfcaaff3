"""Captures made by hand, and what is true of them by the plainest count that there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from capture.builder import META, START_NS, CaptureBuilder

from weft.sample import SEAM, Frame, FrameKind, State

MS = 1_000_000
ACTIVE = (State.RUNNING, State.RUNNABLE, State.GIL)
ACCOUNT = {"samples_wanted": 1000, "samples_taken": 996, "samples_late": 4, "seams_proven": 3}
Key = tuple[str, str, int]


def frame(function: str, file: str = "/srv/app.py", line: int = 0, first_line: int = 0, **more: int) -> Frame:
    return Frame(FrameKind.PYTHON, function, file, line, first_line, **more)


def by_function(one: Frame) -> Key:
    return one.function, one.file, one.first_line


def by_line(one: Frame) -> Key:
    return one.function, one.file, one.line


@dataclass(frozen=True)
class Seen:
    """So much time of one thread in one state with one stack, root first; directly after what it showed before."""

    stack: tuple[Frame, ...]
    weight_ns: int
    thread: int = 1
    state: State = State.RUNNING
    ticks: int = 1


@dataclass
class Recording:
    """What was seen, kept as it is: the capture is made of it, and the truth counted from it."""

    seen: list[Seen] = field(default_factory=list)
    thread_names: tuple[str, ...] = ("MainThread",)
    pids: tuple[int, ...] = (4242,)  # thread i belongs to process i, and all beyond the last to the last
    command: tuple[str, ...] = ("python3", "/srv/app.py")
    sources: dict[str, str] = field(default_factory=dict)
    losses: dict[str, tuple[int, int]] = field(default_factory=dict)
    waits: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # as of CaptureWriter, stacks by Seen
    meta: dict[str, str | int] = field(default_factory=dict)

    def add(self, names: str, weight_ms: int, thread: int = 1, state: State = State.RUNNING) -> None:
        """Functions of one file, root first, with spaces between: the n-th of a stack is at line 10 + n."""
        stack = tuple(frame(name, line=10 + i, first_line=1) for i, name in enumerate(names.split()))
        self.seen.append(Seen(stack, weight_ms * MS, thread, state, weight_ms))

    def write(self, path: Path) -> Path:
        """The capture."""
        builder = _Builder(path, self)
        for seen in self.seen:
            builder.run(seen.stack, seen.weight_ns, thread=seen.thread, state=seen.state, ticks=seen.ticks)
        writer = builder.writer
        writer.add_gil_waits(
            (waiter, builder.stack(self.seen[one].stack), holder, builder.stack(self.seen[other].stack), weight)
            for waiter, one, holder, other, weight in self.waits
        )
        for file, text in self.sources.items():
            writer.add_source(file, text)
        writer.set_account(ACCOUNT)
        writer.set_losses(1, self.losses)
        return builder.close()

    def chosen(self, threads: Iterable[int] = (), states: Iterable[State] = ACTIVE) -> Iterator[Seen]:
        threads, states = set(threads), set(states)
        return (seen for seen in self.seen if seen.state in states and (not threads or seen.thread in threads))


class _Builder(CaptureBuilder):
    def __init__(self, path: Path, recording: Recording) -> None:
        self._recording = recording
        self._modules: dict[str, int] = {}
        super().__init__(path, {**META, **recording.meta})

    def add_process(self, process: int, pid: int, command: Sequence[str], parent: int | None = None) -> None:
        for number, own in enumerate(self._recording.pids, 1):
            super().add_process(number, own, self._recording.command)

    def add_thread(self, thread: int, process: int, tid: int, name: str) -> None:
        for number, own in enumerate(self._recording.thread_names, 1):
            super().add_thread(number, min(number, len(self._recording.pids)), 4241 + number, own)

    def stack(self, frames: Iterable[Frame]) -> int:
        frames = list(frames)
        for one in frames:
            if one not in self.frames and one.kind is not FrameKind.PYTHON:
                self.frames[one] = len(self.frames) + 1
                self._add_by_address(self.frames[one], one)
        return super().stack(frames)

    def _add_by_address(self, number: int, one: Frame) -> None:
        """A native frame, or one of the kernel, as recorders write it: an address, and later what lies there."""
        if one.kind is FrameKind.KERNEL:
            self.writer.add_kernel_frame(number, number)
        else:
            if one.module not in self._modules:
                self._modules[one.module] = len(self._modules) + 1
                self.writer.add_module(self._modules[one.module], one.module, None)
            self.writer.add_native_frame(number, self._modules[one.module], number, one.flags & SEAM)
        self.writer.add_functions(number, [one._replace(flags=one.flags & ~SEAM, module="")])


def costs(seen: Iterable[Seen], key: Callable[[Frame], Key] = by_function) -> dict[Key, tuple[float, float]]:
    """Percent of self and total time of each key, recursion counted once."""
    own: Counter[Key] = Counter()
    total: Counter[Key] = Counter()
    whole = 0
    for one in seen:
        whole += one.weight_ns
        own[key(one.stack[-1])] += one.weight_ns
        total.update(dict.fromkeys({key(each) for each in one.stack}, one.weight_ns))
    return {each: (100 * own[each] / whole, 100 * total[each] / whole) for each in total}


def random_recording(seed: int, count: int = 400) -> Recording:
    """Deep and shallow stacks of few functions, so that recursion and equal names in several files are common."""
    random = Random(seed)
    files = ["/srv/app.py", "/usr/lib/python3.13/json/decoder.py", "/venv/lib/python3.13/site-packages/pkg/core.py"]
    functions = [
        (name, file, 10 * i) for i, name in enumerate(("main", "run", "load", "<lambda>", "C.get"), 1) for file in files
    ]
    recording = Recording(thread_names=("MainThread", "worker-1", "worker-2"))
    for _ in range(count):
        stack = []
        for _ in range(random.randint(1, 12)):
            name, file, first = random.choice(functions[: random.choice((3, 6, 15))])
            stack.append(frame(name, file, first + random.randrange(3), first))
        weight = random.randint(1, 20) * MS
        state = random.choice((State.RUNNING, State.RUNNING, State.GIL, State.BLOCKED))
        recording.seen.append(Seen(tuple(stack), weight, random.randint(1, 3), state, random.randint(1, 9)))
    return recording


__all__ = ["MS", "START_NS", "Recording", "Seen", "by_function", "by_line", "costs", "frame", "random_recording"]
