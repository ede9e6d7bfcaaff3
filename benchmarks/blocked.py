"""A row of blocked time: how long a thread waits, in which function and for what."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from interpreters import Interpreter

from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Recording, Stack, Tachyon, Weft, places
from benchmarks.programs import TARGETS, newest, running_program
from benchmarks.results import Row, Settings
from weft.sample import FrameKind, State

RATE_HZ = 1000
MARGIN_S = 1.0  # a recorder's start is over by then
# What each function waits for. The last one sleeps, while the GIL is taken from it, for a time that is the same always.
STATES = {
    "waits_for_sleep": {State.SLEEPING},
    "waits_for_pipe": {State.IO},
    "waits_for_lock": {State.LOCK},
    "waits_for_gil": {State.GIL, State.SLEEPING},
}
ON_CPU = {State.RUNNING, State.RUNNABLE}  # once woken, it has to get a CPU
AFTER_NAP = {State.GIL, *ON_CPU}
NAP_S = 0.002  # of targets/waits.py
WEFT = (Weft("bpf", idle=True), Weft("ptrace", idle=True))


def blocked(settings: Settings) -> Iterator[Row]:
    """A thread that sleeps, reads a pipe, waits for a lock and for the GIL, in turns, with others that let it wait."""
    if python := newest((3, 13)):
        yield blocked_row((*WEFT, PySpy("--idle"), PySpy("--gil"), Austin()), python, settings)
    own = newest((3, 15))
    if own and not settings.quick:
        yield blocked_row((*WEFT, Tachyon(), Tachyon("--blocking")), own, settings)


def blocked_row(peers: Sequence[Peer], interpreter: Interpreter, settings: Settings) -> Row:
    """How far off each function's time is, in percent of itself."""
    row = Row(
        f"Blocked time: a thread that waits in turns, at 1 kHz, {interpreter.name}",
        ("sleep", "pipe", "lock", "GIL", "in the mean", "told for what", "GIL by state", "samples"),
    )
    seconds = settings.seconds * min(settings.rounds, 2)
    for peer in peers:
        with row.trying(peer, settings):
            with running_program(interpreter, TARGETS / "waits.py") as target:
                time.sleep(MARGIN_S)
                begin = time.monotonic() + MARGIN_S
                run = Recording(peer, interpreter, target.pid, RATE_HZ, seconds).finish(stacks=True)
                end = time.monotonic()
                assert target.process.stdin is not None
                target.process.stdin.close()
                turns = target.next_line()["turns"]
            errors = errors_of(shares_seen(run.stacks), shares_true(turns, begin, end))
            cells = [f"{100 * errors[function]:+.1f} %" for function in STATES]
            mean = fmean(abs(errors[function]) for function in STATES)
            right, gil = told_right(run.stacks), gil_error(run.stacks, turns, begin, end)
            cells += [f"{100 * mean:.1f} %", "-" if right is None else f"{right:.1%}"]
            cells += ["-" if gil is None else f"{100 * gil:+.1f} %", f"{run.told.samples:,}"]
            row.add(peer.name, cells, {"blocked_off": [errors[function] for function in STATES]})
    row.notes.append(
        "How far off the time in each function is, in percent of itself, by the thread's own clock; as shares of the "
        "thread's whole time. Told for what: the part of the waiting whose cause is told, and rightly; others than "
        "weft tell none. GIL by state: how far off the time is that is told as waiting for the GIL. "
        "py-spy --gil records the threads that hold the GIL, so none that waits."
    )
    return row


def shares_seen(stacks: Sequence[tuple[Stack, float]]) -> dict[str, float]:
    """Of the thread's whole time, by function. PeerFailedError: it was not seen."""
    seen = dict.fromkeys(STATES, 0.0)
    whole = 0.0
    for function, _, weight in _of_thread(stacks):
        whole += weight
        if function in seen:
            seen[function] += weight
    if not whole:
        raise PeerFailedError("it recorded nothing of the thread that waits")
    return {function: weight / whole for function, weight in seen.items()}


def shares_true(turns: Sequence[tuple[str, float, float]], begin: float, end: float) -> dict[str, float]:
    """The same between two moments, as the thread has noted it."""
    sums = dict.fromkeys(STATES, 0.0)
    for function, since, until in turns:
        if function in sums:
            sums[function] += max(0.0, min(until, end) - max(since, begin))
    return {function: seconds / (end - begin) for function, seconds in sums.items()}


def errors_of(seen: Mapping[str, float], true: Mapping[str, float]) -> dict[str, float]:
    """How far off each is, as a part of itself."""
    return {function: seen[function] / true[function] - 1 for function in true}


def told_right(stacks: Sequence[tuple[Stack, float]]) -> float | None:
    """Of the time in these functions and not on a CPU, the part that is told with its cause. None: no cause is told."""
    right = whole = 0.0
    for function, state, weight in _of_thread(stacks):
        if state is None:
            return None
        if function in STATES and state not in ON_CPU:
            whole += weight
            right += weight * (state in STATES[function])
    return right / whole if whole else None


def gil_error(
    stacks: Sequence[tuple[Stack, float]], turns: Sequence[tuple[str, float, float]], begin: float, end: float
) -> float | None:
    """How far off the time is that is told as waiting for the GIL, as a part of itself."""
    of_thread = [each for each in _of_thread(stacks) if each[1] is not None]
    if not of_thread:
        return None
    # Once it may have the GIL it has to get a CPU, which its clock counts as waiting.
    told = sum(weight for function, state, weight in of_thread if function == "waits_for_gil" and state in AFTER_NAP)
    seen = told / sum(weight for _, _, weight in of_thread)
    waits = [("waits_for_gil", since + NAP_S, until) for name, since, until in turns if name == "waits_for_gil"]
    return seen / shares_true(waits, begin, end)["waits_for_gil"] - 1


def _of_thread(stacks: Sequence[tuple[Stack, float]]) -> Iterator[tuple[str, State | None, float]]:
    """Of the thread that waits: function, state where it is told, weight."""
    for stack, weight in stacks:
        functions = [function for function, _ in places(stack)]
        if "works" in functions:
            last = stack[-1]
            is_state = last.kind is FrameKind.MARKER and last.function in State.__members__
            inside = functions[functions.index("works") + 1 :]
            yield inside[0] if inside else "", State[last.function] if is_state else None, weight
