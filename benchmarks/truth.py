"""Rows of truth: stacks that cannot exist, and shares of CPU time that are known."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import NormalDist, fmean

import running
from interpreters import Interpreter
from running import Target
from storm_grammar import violation
from woven_calls import calls, has_gap, kind_of, kinds_of

from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Recording, Run, Stack, Tachyon, Weft, places
from benchmarks.programs import TARGETS, known_to_all, newest, running_program
from benchmarks.results import Measured, Row, Settings, told

RATE_HZ = 1000
WEFT = (Weft("ptrace"), Weft("bpf"), Weft("ptrace", native=True), Weft("bpf", native=True))


def groups() -> Iterator[tuple[Interpreter, Sequence[Peer]]]:
    """Who is compared on which interpreter."""
    if python := known_to_all():
        yield python, (*WEFT, PySpy(), PySpy("--nonblocking"), Austin())
    if own := newest((3, 15)):
        yield own, (*WEFT, Tachyon(), Tachyon("--blocking"))


def groups_by_cpu() -> Iterator[tuple[Interpreter, Sequence[Peer]]]:
    """The same, of CPU time alone, for which py-spy has no mode."""
    mode = ("--mode", "cpu")
    weft = (Weft("ptrace", *mode), Weft("bpf", *mode))
    if python := known_to_all():
        yield python, (*weft, PySpy(), PySpy("--nonblocking"), Austin("--cpu"))
    if own := newest((3, 15)):
        yield own, (*weft, Tachyon(*mode), Tachyon(*mode, "--blocking"))


def storm(settings: Settings) -> Iterator[Row]:
    """A program of tens of millions of short calls a second, of whose stacks it is known which can exist."""
    for interpreter, peers in groups():
        title = f"Impossible stacks: a storm of short calls at 1 kHz, {interpreter.name}"
        row = Row(title, ("samples", "impossible", "empty", "truncated", "degraded", "lost", "late"))
        seconds = settings.seconds * settings.rounds
        for peer in peers:
            with row.trying(peer, settings):
                with running_program(interpreter, running.TARGETS / "storm.py", 10 * seconds + 60) as target:
                    run = Recording(peer, interpreter, target.pid, RATE_HZ, seconds).finish(stacks=True)
                empty, wrong = (part / whole_of(run) for part in judged(run.stacks))
                cells = [f"{run.told.samples:,}", _percent(wrong), _percent(empty)]
                cells += map(told, (run.told.truncated, run.told.degraded, run.told.lost, run.told.late))
                measured: Measured = {
                    "samples": [run.told.samples],
                    "impossible_share": [wrong],
                    "empty_share": [empty],
                }
                row.add(peer.name, cells, measured)
        row.notes.append(
            "Impossible: the part of what was recorded whose stack the program's call tree does not have. Empty: shown "
            "without any Python frame. Truncated, degraded, lost and late: samples that the recorder itself tells so. "
            "austin marks some of its frames as invalid; its own converter leaves the marks out."
        )
        yield row


def judged(stacks: list[tuple[Stack, float]]) -> tuple[float, float]:
    """The weight of stacks without a Python frame, and of those that cannot be."""
    seen = [(places(stack), weight) for stack, weight in stacks]
    empty = sum(weight for stack, weight in seen if not stack)
    return empty, sum(weight for stack, weight in seen if stack and violation(stack))


def whole_of(run: Run) -> float:
    """The weight of all that was recorded. PeerFailedError: there is nothing."""
    if whole := sum(weight for _, weight in run.stacks):
        return whole
    raise PeerFailedError("it recorded no stack")


def interleavings(settings: Settings) -> Iterator[Row]:
    """Python that calls C that calls Python: by its name, each Python function tells which C function has called it."""
    python = known_to_all()
    if python is None:
        return
    row = Row(
        f"Interleavings of Python and C, 50 calls deep, at 1 kHz, {python.name}",
        ("stacks with a wrong call", "C calls that are shown", "seams proven", "marked as not whole", "samples"),
    )
    seconds = settings.seconds * settings.rounds
    peers: Sequence[Peer] = (Weft("ptrace", native=True), Weft("bpf", native=True), PySpy("--native"))
    for peer in peers:
        with row.trying(peer, settings):
            with running_program(python, running.TARGETS / "woven.py", 10 * seconds + 60) as target:
                run = Recording(peer, python, target.pid, RATE_HZ, seconds).finish(stacks=True)
            whole = whole_of(run)
            marked = sum(weight for stack, weight in run.stacks if has_gap(stack)) / whole
            wrong, shown = judged_calls([(stack, weight) for stack, weight in run.stacks if not has_gap(stack)])
            measured = {"wrong_share": [wrong], "shown_share": [shown], "marked_share": [marked]}
            proven = "-" if run.told.seams_proven is None else f"{run.told.seams_proven:,} of {run.told.seams:,}"
            cells = [_percent(wrong), f"{shown:.1%}", proven, _percent(marked), f"{run.told.samples:,}"]
            row.add(peer.name, cells, measured)
    row.notes.append(
        "Wrong: a C function that calls one Python function is shown below another. A call is shown if the C function "
        "that makes it is; py-spy hides those of the interpreter by design. Seams proven: places between Python and "
        "native frames that were found by an address on the stack, by the recorder's own account. What is marked is "
        "not judged."
    )
    yield row


def judged_calls(stacks: list[tuple[Stack, float]]) -> tuple[float, float]:
    """The part of the stacks that has a wrong call; of the calls by C functions, the part whose C function is shown."""
    wrong = made = shown = 0.0
    for stack, weight in stacks:
        made_by = [(kind_of(name), kinds_of(between)) for name, between in [*calls(stack)][1:]]
        wrong += weight * any(found - {kind} for kind, found in made_by)
        made += weight * sum(kind != "python" for kind, _ in made_by)
        shown += weight * sum(kind in found for kind, found in made_by)
    whole = sum(weight for _, weight in stacks)
    if not whole or not made:
        raise PeerFailedError("it recorded no call by a C function")
    return wrong / whole, shown / made


def shares(settings: Settings) -> Iterator[Row]:
    """Shares of CPU time: of kinds of work, which the program measures by its own clock; of threads, by the kernel."""
    for interpreter, peers in islice(groups(), 1 if settings.quick else None):
        what = "a dozen kinds of work in turns"
        seconds = _share_seconds(settings) + 4
        row = share_row(what, TARGETS / "kinds.py", [seconds], interpreter, peers, settings)
        row.notes.append(
            "Chance: how often as many samples that fall at random would be as far off, all shares together "
            "(chi-square); below 0.001 it is an error. weft's samples fall at random; of those that come at even times "
            "more would be alike, so for these it is too kind."
        )
        yield row
    for interpreter, peers in () if settings.quick else groups_by_cpu():
        what = "eight threads that compete for the GIL"
        row = share_row(what, TARGETS / "contenders.py", [], interpreter, peers, settings)
        row.notes.append(
            "Each thread has a function of its own, and its CPU time is the kernel's account of it. weft weighs its "
            "samples by that account, so that no chance is left: what it is off comes of the recording's begin and "
            "end. py-spy has no mode for CPU time: it leaves out the threads that it takes for idle."
        )
        yield row


def share_row(
    what: str,
    script: Path,
    arguments: Sequence[float],
    interpreter: Interpreter,
    peers: Sequence[Peer],
    settings: Settings,
) -> Row:
    """How far each peer's shares are off."""
    row = Row(
        f"Shares of CPU time: {what}, at 1 kHz, {interpreter.name}",
        ("most off", "points off, in the mean", "chance of as much", "elsewhere", "samples"),
        notes=["Points: percentage points. Elsewhere: in no function whose share is known."],
    )
    for peer in peers:
        with row.trying(peer, settings):
            with running_program(interpreter, script, *arguments) as target:
                time.sleep(1)
                before = _cpu_s_of_threads(target)
                run = Recording(peer, interpreter, target.pid, RATE_HZ, _share_seconds(settings)).finish(stacks=True)
                true = {function: cpu_s - before[function] for function, cpu_s in _cpu_s_of_threads(target).items()}
                of_threads = bool(true)
                true = true or target.next_line()["cpu_s"]
            weights = {kind: _weight_in(kind, run.stacks) for kind in true}
            elsewhere = 1 - sum(weights.values()) / whole_of(run)
            errors = errors_of(weights, true)
            chance = None if of_threads else chance_of(errors, true, run.told.samples * (1 - elsewhere))
            worst = max(errors, key=lambda kind: abs(errors[kind]))
            cells = [f"{worst} {errors[worst]:+.2f}", f"{fmean(map(abs, errors.values())):.2f}"]
            cells += ["-" if chance is None else probability(chance), _percent(elsewhere), f"{run.told.samples:,}"]
            measured = {"points_off": list(errors.values()), "elsewhere": [elsewhere]}
            row.add(peer.name, cells, measured)
    return row


def _share_seconds(settings: Settings) -> float:
    return settings.seconds * settings.rounds


def _cpu_s_of_threads(target: Target) -> dict[str, float]:
    """So far, of each thread that has a function of its own (the kernel's Documentation/scheduler/sched-stats.rst).

    The second in which a recorder starts counts, too.
    """
    return {
        function: int(Path(f"/proc/{target.pid}/task/{tid}/schedstat").read_bytes().split()[0]) / 1e9
        for function, tid in target.ready.get("threads", {}).items()
    }


def errors_of(weights: Mapping[str, float], true: Mapping[str, float]) -> dict[str, float]:
    """How far each kind's share is off, in percentage points. PeerFailedError: none was seen."""
    seen, whole = sum(weights.values()), sum(true.values())
    if not seen:
        raise PeerFailedError("it saw none of the work")
    return {kind: 100 * (weights[kind] / seen - true[kind] / whole) for kind in weights}


def chance_of(errors: Mapping[str, float], true: Mapping[str, float], samples: float) -> float:
    """The probability that samples at random are as far off or more (Pearson's chi-square test).

    By the approximation of Wilson and Hilferty (1931), which is good to some 0.001 for so many kinds.
    """
    whole = sum(true.values())
    square = sum((error / 100) ** 2 * samples / (true[kind] / whole) for kind, error in errors.items())
    spread = 2 / (9 * (len(true) - 1))
    root: float = (square / (len(true) - 1)) ** (1 / 3)
    return 1 - NormalDist(1 - spread, spread**0.5).cdf(root)


def probability(chance: float) -> str:
    """As it is told."""
    return f"{chance:.2f}" if chance >= 0.1 else f"{chance:.3f}" if chance >= 0.001 else "below 0.001: an error"


def _weight_in(kind: str, stacks: list[tuple[Stack, float]]) -> float:
    return sum(weight for stack, weight in stacks if any(function == kind for function, _ in places(stack)))


def _percent(share: float) -> str:
    return "0" if share == 0 else f"{100 * share:.2g} %"
