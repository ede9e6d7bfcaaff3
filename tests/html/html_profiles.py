"""Profiles made by hand, and what is true of them by the plainest count that there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from weft.capture import Process, Thread
from weft.profile.quality import KEYS, Account, Reason
from weft.profile.tables import Profile, Stacks, Total
from weft.sample import Frame, FrameKind, State

MS = 1_000_000


def frame(function: str, file: str = "/srv/app.py", line: int = 0, first_line: int = 0) -> Frame:
    return Frame(FrameKind.PYTHON, function, file, line, first_line)


@dataclass(frozen=True)
class Seen:
    """So much time of one thread in one state with one stack, root first."""

    stack: tuple[Frame, ...]
    weight_ns: int
    thread: int = 1
    state: State = State.RUNNING
    ticks: int = 1


@dataclass
class Recording:
    """What was seen, kept as it is: the profile is made of it, and the truth counted from it."""

    seen: list[Seen] = field(default_factory=list)
    thread_names: tuple[str, ...] = ("MainThread",)
    pids: tuple[int, ...] = (4242,)  # thread i belongs to process i, and all beyond the last to the last

    def add(self, names: str, weight_ms: int, thread: int = 1, state: State = State.RUNNING) -> None:
        """Functions of one file, root first, with spaces between."""
        stack = tuple(frame(name, line=10 + i, first_line=1) for i, name in enumerate(names.split()))
        self.seen.append(Seen(stack, weight_ms * MS, thread, state, weight_ms))

    def profile(self) -> Profile:
        stacks = Stacks()
        numbers: dict[Frame, int] = {}
        sums: dict[tuple[int, int, State], list[int]] = {}
        for seen in self.seen:
            node = 0
            for one in seen.stack:
                node = stacks.add(node, numbers.setdefault(one, len(numbers)))
            total = sums.setdefault((seen.thread, node, seen.state), [0, 0])
            total[0] += seen.weight_ns
            total[1] += seen.ticks
        process_of = {i: min(i, len(self.pids)) for i in range(1, len(self.thread_names) + 1)}
        return Profile(
            meta={"mode": "wall", "rate_hz": 1000, "collector": "ptrace"},
            processes={
                i: Process(i, pid, None, ("python3", "app.py"), "CPython 3.13.0", 0, None, None)
                for i, pid in enumerate(self.pids, 1)
            },
            threads={
                i: Thread(i, process_of[i], 4242 + i - 1, name, 0, None) for i, name in enumerate(self.thread_names, 1)
            },
            frames=list(numbers),
            stacks=stacks,
            totals=[
                Total(process_of[thread], thread, node, state, *total)
                for (thread, node, state), total in sorted(sums.items())
            ],
            nodes={},
            duration_ns=sum(seen.weight_ns for seen in self.seen),
            idle=True,
        )

    def chosen(
        self, threads: Iterable[int] = (), states: Iterable[State] = (State.RUNNING, State.GIL)
    ) -> Iterator[Seen]:
        threads, states = set(threads), set(states)
        return (seen for seen in self.seen if seen.state in states and (not threads or seen.thread in threads))


def account(lost: Sequence[Reason] = ()) -> Account:
    counts = dict.fromkeys(KEYS, 0) | {"samples_wanted": 1000, "samples_taken": 996, "samples_late": 4}
    return Account(
        counts=counts,
        lost=tuple(lost),
        degraded=(),
        collector="ptrace",
        collector_reason="",
        pacer="clock",
        ended="",
        complete=True,
        warnings=(),
    )


def random_recording(seed: int, count: int = 400) -> Recording:
    """Deep and shallow stacks of few functions, so that recursion and equal names in several files are common."""
    random = Random(seed)
    files = ["/srv/app.py", "/usr/lib/python3.13/json/decoder.py", "/venv/lib/python3.13/site-packages/pkg/core.py"]
    functions = [
        (name, file, 10 * i) for i, name in enumerate(("main", "run", "load", "<lambda>", "C.get")) for file in files
    ]
    recording = Recording(thread_names=("MainThread", "worker-1", "worker-2"))
    for _ in range(count):
        stack = []
        for _ in range(random.randint(1, 12)):
            name, file, first = random.choice(functions[: random.choice((3, 6, 15))])
            stack.append(frame(name, file, first + random.randrange(3), first))
        weight = random.randint(1, 20) * MS + random.randrange(MS)
        state = random.choice((State.RUNNING, State.RUNNING, State.GIL, State.BLOCKED))
        recording.seen.append(Seen(tuple(stack), weight, random.randint(1, 3), state, random.randint(1, 9)))
    return recording
