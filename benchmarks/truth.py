"""Rows of truth: stacks that cannot exist, and shares of CPU time that are known."""

from __future__ import annotations

import time
from collections.abc import Sequence

from interpreters import Interpreter
from running import TARGETS
from storm_grammar import violation

from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Recording, Stack, Tachyon, Weft
from benchmarks.programs import newest, running_program
from benchmarks.results import Row, Settings, told

RATE_HZ = 1000
KINDS = ("loop", "calls", "c_code")
SIGMAS = 3
WEFT = (Weft("ptrace"), Weft("bpf"), Weft("ptrace", native=True), Weft("bpf", native=True))


def groups() -> list[tuple[Interpreter, Sequence[Peer]]]:
    """Who is compared on which interpreter."""
    python, own = newest((3, 13)), newest((3, 15))
    found: list[tuple[Interpreter, Sequence[Peer]]] = []
    if python:
        found.append((python, (*WEFT, PySpy(), PySpy("--nonblocking"), Austin())))
    if own:
        found.append((own, (*WEFT, Tachyon(), Tachyon("--blocking"))))
    return found


def storm(settings: Settings) -> list[Row]:
    """A program of tens of millions of short calls a second, of whose stacks it is known which can exist."""
    rows = []
    for interpreter, peers in groups():
        row = Row(
            f"Impossible stacks: a storm of short calls at 1 kHz, {interpreter.name}",
            ("samples", "impossible", "empty", "lost", "late"),
        )
        for peer in peers:
            if why := peer.missing(interpreter):
                row.missing[peer.name] = why
                continue
            settings.progress(f"{row.title}: {peer.name}")
            seconds = settings.seconds * settings.rounds
            try:
                with running_program(interpreter, TARGETS / "storm.py", 10 * seconds + 60) as target:
                    run = Recording(peer, interpreter, target.pid, RATE_HZ, seconds).finish(stacks=True)
            except PeerFailedError as error:
                row.missing[peer.name] = str(error)
                continue
            whole = sum(weight for _, weight in run.stacks)
            empty, wrong = (part / whole for part in judged(run.stacks)) if whole else (float("nan"), float("nan"))
            cells = [
                f"{run.told.samples:,}",
                _percent(wrong),
                _percent(empty),
                told(run.told.lost),
                told(run.told.late),
            ]
            measured: dict[str, list[float]] = {
                "samples": [run.told.samples],
                "impossible_share": [wrong],
                "empty_share": [empty],
            }
            row.add(peer.name, cells, measured)
        row.notes.append(
            "Impossible: the part of what was recorded whose stack the program's call tree does not have. Empty: shown "
            "without any frame. Lost and late: samples that the recorder itself tells so."
        )
        rows.append(row)
    return rows


def judged(stacks: list[tuple[Stack, float]]) -> tuple[float, float]:
    """The weight of stacks without a frame, and of those that cannot be."""
    empty = sum(weight for stack, weight in stacks if not stack)
    return empty, sum(weight for stack, weight in stacks if stack and violation(stack))


def shares(settings: Settings) -> list[Row]:
    """Three kinds of work that have a third of the CPU time each, by the thread's own clock."""
    rows = []
    for interpreter, peers in groups():
        row = Row(
            f"Shares of CPU time: a long loop, short calls, C code, at 1 kHz, {interpreter.name}",
            (*(f"{kind}, points off" for kind in KINDS), "more than chance", "samples"),
        )
        for peer in peers:
            if why := peer.missing(interpreter):
                row.missing[peer.name] = why
                continue
            settings.progress(f"{row.title}: {peer.name}")
            seconds = settings.seconds * settings.rounds
            try:
                with running_program(interpreter, TARGETS / "shares.py", seconds + 4, *KINDS) as target:
                    time.sleep(0.5)
                    run = Recording(peer, interpreter, target.pid, RATE_HZ, seconds).finish(stacks=True)
                    true = target.next_line()["cpu_s"]
            except PeerFailedError as error:
                row.missing[peer.name] = str(error)
                continue
            weights = {kind: _weight_in(kind, run.stacks) for kind in KINDS}
            errors = errors_of(weights, true)
            chance = SIGMAS * chance_of(run.told.samples)
            beyond = [kind for kind, error in errors.items() if abs(error) > chance]
            cells = [f"{error:+.2f}" for error in errors.values()]
            row.add(
                peer.name,
                [*cells, ", ".join(beyond) or f"no (±{chance:.2f})", f"{run.told.samples:,}"],
                {"points_off": list(errors.values()), "samples": [run.told.samples]},
            )
        row.notes.append(
            f"More than chance: beyond {SIGMAS} standard deviations of as many samples that fall at random (in "
            "brackets). The program measures its shares itself, by its thread's clock."
        )
        rows.append(row)
    return rows


def errors_of(weights: dict[str, float], true: dict[str, float]) -> dict[str, float]:
    """How far each kind's share is off, in percentage points."""
    seen, whole = sum(weights.values()), sum(true.values())
    return {kind: 100 * (weights[kind] / seen - true[kind] / whole) if seen else float("nan") for kind in weights}


def chance_of(samples: int) -> float:
    """The standard deviation of a share of a third, of so many independent samples, in percentage points."""
    return 100 * (2 / 9 / max(samples, 1)) ** 0.5


def _weight_in(kind: str, stacks: list[tuple[Stack, float]]) -> float:
    return sum(weight for stack, weight in stacks if any(function == kind for function, _ in stack))


def _percent(share: float) -> str:
    return "0" if share == 0 else f"{100 * share:.2g} %"
