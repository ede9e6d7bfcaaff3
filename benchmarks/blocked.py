"""A row of blocked time: how long a thread waits, in which function and for what."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from interpreters import Interpreter

from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Recording, Stack, Tachyon, Weft, places
from benchmarks.programs import TARGETS, known_to_all, newest, running_program
from benchmarks.results import Row, Settings
from weft.sample import FrameKind, State

RATE_HZ = 1000
MARGIN_S = 1.0  # before a recorder begins
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
MIN_TURNS = 25  # half a second
WEFT = (Weft("bpf", idle=True), Weft("ptrace", idle=True))


def blocked(settings: Settings) -> Iterator[Row]:
    """A thread that sleeps, reads a pipe, waits for a lock and for the GIL, in turns, with others that let it wait."""
    if python := known_to_all():
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
                run = Recording(peer, interpreter, target.pid, RATE_HZ, seconds).finish(stacks=True)
                assert target.process.stdin is not None
                target.process.stdin.close()
                turns = target.next_line()["turns"]
            seen = seen_of(run.stacks)
            whole = whole_turns(seen)
            errors = errors_of(shares_seen(seen, whole), shares_true(turns, whole))
            cells = [f"{100 * errors[function]:+.2f} %" for function in STATES]
            mean = fmean(abs(errors[function]) for function in STATES)
            right, gil = told_right(seen), gil_error(seen, turns, whole)
            cells += [f"{100 * mean:.2f} %", "-" if right is None else f"{right:.1%}"]
            cells += ["-" if gil is None else f"{100 * gil:+.2f} %", f"{run.told.samples:,}"]
            row.add(peer.name, cells, {"blocked_off": [errors[function] for function in STATES]})
    row.notes.append(
        "How far off the time in each function is, in percent of itself, by the thread's own clock; as shares of all "
        "turns that the recorder has seen from begin to end: each has a function of its own. Told for what: the part "
        "of the waiting whose cause is told, and rightly; others than weft tell none. GIL by state: how far off the "
        "time is that is told as waiting for the GIL. py-spy --gil records the threads that hold the GIL, so none "
        "that waits."
    )
    return row


@dataclass(frozen=True)
class Seen:
    """A part of a recording: the turn and what it was for, the thread's state where it is told, and for how long."""

    turn: int
    function: str  # "": the turn was about to call it, or had
    state: State | None
    weight: float


Turns = Sequence[tuple[str, float, float]]  # function, begin and end, as the thread has noted them


def seen_of(stacks: Sequence[tuple[Stack, float]]) -> list[Seen]:
    """What was seen of the turns of the thread that waits. PeerFailedError: nothing."""
    seen = []
    for stack, weight in stacks:
        functions = [function for function, _ in places(stack)]
        at = next((at for at, name in enumerate(functions) if re.fullmatch(r"turn_\d+", name)), None)
        if at is not None:
            last = stack[-1]
            is_state = last.kind is FrameKind.MARKER and last.function in State.__members__
            state = State[last.function] if is_state else None
            function = functions[at + 1] if at + 1 < len(functions) else ""
            seen.append(Seen(int(functions[at].removeprefix("turn_")), function, state, weight))
    if not seen:
        raise PeerFailedError("it recorded nothing of the thread that waits")
    return seen


def whole_turns(seen: Sequence[Seen]) -> range:
    """The turns that the recorder was there for from begin to end: all but the first and the last that it saw.

    PeerFailedError: they are few, so that some function may have none.
    """
    turns = {each.turn for each in seen}
    whole = range(min(turns) + 1, max(turns))
    if len(whole) < MIN_TURNS:
        raise PeerFailedError(f"it was there for {len(whole)} turns")
    return whole


def shares_seen(seen: Sequence[Seen], whole: range) -> dict[str, float]:
    """Of the time of these turns, by function."""
    sums = dict.fromkeys(STATES, 0.0)
    for each in seen:
        if each.turn in whole and each.function in sums:
            sums[each.function] += each.weight
    of_all = _weight_of(seen, whole)
    return {function: weight / of_all for function, weight in sums.items()}


def shares_true(turns: Turns, whole: range) -> dict[str, float]:
    """The same, as the thread has noted it."""
    sums = dict.fromkeys(STATES, 0.0)
    for function, begin, end in _within(turns, whole):
        if function in sums:
            sums[function] += end - begin
    return {function: seconds / _seconds_of(turns, whole) for function, seconds in sums.items()}


def errors_of(seen: Mapping[str, float], true: Mapping[str, float]) -> dict[str, float]:
    """How far off each is, as a part of itself."""
    return {function: seen[function] / true[function] - 1 for function in true}


def told_right(seen: Sequence[Seen]) -> float | None:
    """Of the time in these functions and not on a CPU, the part that is told with its cause. None: no cause is told."""
    right = whole = 0.0
    for each in seen:
        if each.state is None:
            return None
        if each.function in STATES and each.state not in ON_CPU:
            whole += each.weight
            right += each.weight * (each.state in STATES[each.function])
    return right / whole if whole else None


def gil_error(seen: Sequence[Seen], turns: Turns, whole: range) -> float | None:
    """How far off the time is that is told as waiting for the GIL, as a part of itself."""
    if any(each.state is None for each in seen):
        return None
    # Once it may have the GIL it has to get a CPU, which its clock counts as waiting.
    waits = [each for each in seen if each.function == "waits_for_gil" and each.state in AFTER_NAP]
    true = [end - begin - NAP_S for function, begin, end in _within(turns, whole) if function == "waits_for_gil"]
    return _weight_of(waits, whole) / _weight_of(seen, whole) / (sum(true) / _seconds_of(turns, whole)) - 1


def _weight_of(seen: Sequence[Seen], whole: range) -> float:
    return sum(each.weight for each in seen if each.turn in whole)


def _within(turns: Turns, whole: range) -> Turns:
    return turns[whole.start : whole.stop]


def _seconds_of(turns: Turns, whole: range) -> float:
    return sum(end - begin for _, begin, end in _within(turns, whole))
