"""Who makes whom wait for the GIL, by function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from weft.capture import Capture, GilWait, Runs
from weft.profile.tables import Profile
from weft.profile.transform import by_function
from weft.sample import FrameKind, State

Function = tuple[str, str, int]  # as by_function() gives it
PYTHON = (FrameKind.PYTHON, FrameKind.CYTHON)
SLICE_NS: Final = 10_000_000  # of time, that an estimate names one holder in
_RAN: Final = (State.RUNNING, State.RUNNABLE)  # who holds the GIL may have been preempted


@dataclass(frozen=True, slots=True)
class Blame:
    """A thread waited for the GIL in a function, while another thread held it in another function.

    Threads are Thread.ids. holder None: it is not known who held it; holder_function None: what it did is not known.
    """

    waiter: int
    waiter_function: Function | None
    holder: int | None
    holder_function: Function | None
    weight_ns: int


def blame(capture: Capture, profile: Profile) -> list[Blame]:
    """Return all waits that are known, the longest first; raises CaptureError where the capture is damaged."""
    sums: dict[tuple[int, Function | None, int, Function | None], int] = {}
    for wait in capture.gil_waits():
        if {wait.waiter_stack, wait.holder_stack} - profile.nodes.keys():
            raise capture.damaged("a wait for the GIL has a stack that is not there")
        if {wait.waiter, wait.holder or wait.waiter} - profile.threads.keys():
            raise capture.damaged("a wait for the GIL has a thread that is not there")
        waiter, holder = (_function(profile, stack) for stack in (wait.waiter_stack, wait.holder_stack))
        key = wait.waiter, waiter, wait.holder, holder
        sums[key] = sums.get(key, 0) + wait.weight_ns
    blames = [
        Blame(waiter, waiter_function, holder or None, holder_function, weight_ns)
        for (waiter, waiter_function, holder, holder_function), weight_ns in sums.items()
    ]
    return sorted(blames, key=lambda each: -each.weight_ns)


def _function(profile: Profile, stack: int) -> Function | None:
    """The innermost Python function of a stack of the capture; if there is none, its innermost one."""
    frames = [profile.frames[frame] for frame in reversed(profile.stacks.path(profile.nodes[stack]))]
    frame = next((frame for frame in frames if frame.kind in PYTHON), frames[0] if frames else None)
    return by_function(frame) if frame else None


def estimated(runs: Iterable[tuple[int, Runs]], processes: Mapping[int, int], since_ns: int) -> list[GilWait]:
    """Who made whom wait, where a capture tells only that threads waited.

    It is taken, as by the page's time line, that of the threads of a process the one which ran most in a slice of time
    held the GIL in it. runs: of threads (Thread.id), from since_ns on; processes: of each thread, its Process.id.
    """
    ran: dict[tuple[int, int], dict[tuple[int, int], int]] = {}  # process and slice -> thread and stack -> ns
    waited: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    for thread, columns in runs:
        process = processes.get(thread, 0)
        for at, weight, state, stack in zip(
            columns.at_ns, columns.weight_ns, columns.state, columns.stack, strict=True
        ):
            if state != State.GIL and state not in _RAN:
                continue
            into = waited if state == State.GIL else ran
            begin = max(at - weight, since_ns)
            while begin < at:
                number = begin // SLICE_NS
                end = min(at, (number + 1) * SLICE_NS)
                of_slice = into.setdefault((process, number), {})
                of_slice[thread, stack] = of_slice.get((thread, stack), 0) + end - begin
                begin = end
    sums: dict[tuple[int, int, int, int], int] = {}
    for place, waiters in waited.items():
        for (waiter, stack), weight in waiters.items():
            key = waiter, stack, *_most(ran.get(place, {}), waiter)
            sums[key] = sums.get(key, 0) + weight
    return [GilWait(*key, weight) for key, weight in sums.items()]


def _most(ran: dict[tuple[int, int], int], waiter: int) -> tuple[int, int]:
    """The thread other than the waiter that ran most, and the stack that it mostly had; 0: none ran."""
    threads: dict[int, int] = {}
    for (thread, _), ns in ran.items():
        if thread != waiter:
            threads[thread] = threads.get(thread, 0) + ns
    if not threads:
        return 0, 0
    holder = max(threads, key=threads.__getitem__)
    return holder, max((ns, stack) for (thread, stack), ns in ran.items() if thread == holder)[1]
