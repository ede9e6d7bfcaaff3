"""Rows of truth: stacks that cannot exist, and shares of CPU time that are known."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interpreters import Interpreter
from running import TARGETS, Target
from storm_grammar import violation

from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Recording, Run, Stack, Tachyon, Weft
from benchmarks.programs import newest, running_program
from benchmarks.results import Measured, Row, Settings, told

RATE_HZ = 1000
KINDS = ("loop", "calls", "c_code")
SIGMAS = 3
WEFT = (Weft("ptrace"), Weft("bpf"), Weft("ptrace", native=True), Weft("bpf", native=True))


def groups() -> Iterator[tuple[Interpreter, Sequence[Peer]]]:
    """Who is compared on which interpreter."""
    if python := newest((3, 13)):
        yield python, (*WEFT, PySpy(), PySpy("--nonblocking"), Austin())
    if own := newest((3, 15)):
        yield own, (*WEFT, Tachyon(), Tachyon("--blocking"))


def storm(settings: Settings) -> Iterator[Row]:
    """A program of tens of millions of short calls a second, of whose stacks it is known which can exist."""
    for interpreter, peers in groups():
        title = f"Impossible stacks: a storm of short calls at 1 kHz, {interpreter.name}"
        row = Row(title, ("samples", "impossible", "empty", "lost", "late"))
        seconds = settings.seconds * settings.rounds
        for peer in peers:
            with row.trying(peer, settings):
                with running_program(interpreter, TARGETS / "storm.py", 10 * seconds + 60) as target:
                    run = Recording(peer, interpreter, target.pid, RATE_HZ, seconds).finish(stacks=True)
                empty, wrong = (part / whole_of(run) for part in judged(run.stacks))
                cells = [f"{run.told.samples:,}", _percent(wrong), _percent(empty)]
                measured: Measured = {
                    "samples": [run.told.samples],
                    "impossible_share": [wrong],
                    "empty_share": [empty],
                }
                row.add(peer.name, [*cells, told(run.told.lost), told(run.told.late)], measured)
        row.notes.append(
            "Impossible: the part of what was recorded whose stack the program's call tree does not have. Empty: shown "
            "without any frame. Lost and late: samples that the recorder itself tells so."
        )
        yield row


def judged(stacks: list[tuple[Stack, float]]) -> tuple[float, float]:
    """The weight of stacks without a frame, and of those that cannot be."""
    empty = sum(weight for stack, weight in stacks if not stack)
    return empty, sum(weight for stack, weight in stacks if stack and violation(stack))


def whole_of(run: Run) -> float:
    """The weight of all that was recorded. PeerFailedError: there is nothing."""
    if whole := sum(weight for _, weight in run.stacks):
        return whole
    raise PeerFailedError("it recorded no stack")


def shares(settings: Settings) -> Iterator[Row]:
    """Three kinds of work that have a third of the CPU time each, by the thread's own clock."""
    for interpreter, peers in groups():
        row = Row(
            f"Shares of CPU time: a long loop, short calls, C code, at 1 kHz, {interpreter.name}",
            (*(f"{kind}, points off" for kind in KINDS), "more than chance", "elsewhere", "samples"),
        )
        seconds = settings.seconds * settings.rounds
        for peer in peers:
            with row.trying(peer, settings):
                with running_program(interpreter, TARGETS / "shares.py", seconds + 4, *KINDS) as target:
                    run, true = _with_truth(peer, interpreter, target, seconds)
                whole = whole_of(run)
                weights = {kind: _weight_in(kind, run.stacks) for kind in KINDS}
                elsewhere = 1 - sum(weights.values()) / whole
                errors = errors_of(weights, true)
                chance = SIGMAS * chance_of(run.told.samples * (1 - elsewhere))
                beyond = [kind for kind, error in errors.items() if not abs(error) <= chance]
                cells = [f"{error:+.2f}" for error in errors.values()]
                cells += [", ".join(beyond) or f"no (±{chance:.2f})", _percent(elsewhere), f"{run.told.samples:,}"]
                row.add(peer.name, cells, {"points_off": list(errors.values()), "elsewhere": [elsewhere]})
        row.notes.append(
            f"More than chance: beyond {SIGMAS} standard deviations of as many samples that fall at random (in "
            "brackets). The program measures its shares itself, by its thread's clock. Elsewhere: in none of the three."
        )
        yield row


def _with_truth(peer: Peer, interpreter: Interpreter, target: Target, seconds: float) -> tuple[Run, dict[str, Any]]:
    time.sleep(0.5)
    run = Recording(peer, interpreter, target.pid, RATE_HZ, seconds).finish(stacks=True)
    return run, target.next_line()["cpu_s"]


def errors_of(weights: Mapping[str, float], true: Mapping[str, float]) -> dict[str, float]:
    """How far each kind's share is off, in percentage points. PeerFailedError: none was seen."""
    seen, whole = sum(weights.values()), sum(true.values())
    if not seen:
        raise PeerFailedError("it saw none of the work")
    return {kind: 100 * (weights[kind] / seen - true[kind] / whole) for kind in weights}


def chance_of(samples: float) -> float:
    """The standard deviation of a share of a third, of so many independent samples, in percentage points."""
    return float(100 * (2 / 9 / max(samples, 1)) ** 0.5)


def _weight_in(kind: str, stacks: list[tuple[Stack, float]]) -> float:
    return sum(weight for stack, weight in stacks if any(function == kind for function, _ in stack))


def _percent(share: float) -> str:
    return "0" if share == 0 else f"{100 * share:.2g} %"
