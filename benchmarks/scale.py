"""Rows of growth: with processes, and with the code that a process has mapped."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from interpreters import Interpreter

from benchmarks.cost import at_first, steady_run
from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Run, Weft
from benchmarks.programs import TARGETS, known_to_all, running_program
from benchmarks.results import Row, Settings, in_all, memory_of, spread

Seen = dict[Peer, list[Run]]  # the recordings of each, a round each

FAMILY_HZ = 100
MAPPED_HZ = 250
LIBRARY_MB = 100  # of code; a process that is to have more maps several
FUNCTION_BYTES = 256
# A function of 256 bytes, with a name and unwind information: all in one file, which an assembler makes fast.
ASSEMBLY = """
.text
.globl spin
.type spin, @function
spin: .cfi_startproc
1: sub $1, %rdi
jnz 1b
ret
.cfi_endproc
.size spin, . - spin
.altmacro
.macro one number
.type code_\\number, @function
code_\\number: .cfi_startproc
push %rbp
.cfi_def_cfa_offset 16
.cfi_offset %rbp, -16
mov %rsp, %rbp
.cfi_def_cfa_register %rbp
.skip BYTES - 6, 0x90
pop %rbp
.cfi_def_cfa %rsp, 8
ret
.cfi_endproc
.size code_\\number, . - code_\\number
.endm
.set number, 0
.rept COUNT
one %number
.set number, number + 1
.endr
.section .note.GNU-stack, "", @progbits
"""


def scale(settings: Settings) -> Iterator[Row]:
    """Processes, and mapped code."""
    if python := known_to_all():
        yield with_processes(python, settings)
        yield with_code(python, settings)


def with_processes(python: Interpreter, settings: Settings) -> Row:
    """A process and its children, all of which compute."""
    py_spy, austin = PySpy("-s"), Austin("-C")
    peers = (Weft("ptrace", "-s"), Weft("bpf", "-s"), py_spy, austin)
    row = Row(
        f"Growth with processes: together they use one CPU, at {FAMILY_HZ} Hz, {python.name}",
        (*_columns(py_spy, austin), "late", "lost"),
    )
    for count in (1, 10) if settings.quick else (1, 10, 100):
        what = f", {count} processes" if count > 1 else ", 1 process"
        seen: Seen = {peer: [] for peer in peers}
        with running_program(python, TARGETS / "family.py", count) as target:
            at_first(row, peers, python, target.pid, settings)
            for _ in range(settings.rounds):
                _take_turns(seen, row, python, target.pid, FAMILY_HZ, settings, what)
        for peer, runs in seen.items():
            if runs:
                late, lost = in_all([run.told.late for run in runs]), in_all([run.told.lost for run in runs])
                row.add(peer.name + what, [*_cells(peer, seen, (py_spy, austin)), late, lost], _measured(runs))
    row.notes.append(
        "CPU of the recorder: of one CPU over the whole recording, its start and its end included, and without. Each "
        "process computes a part of the time. Samples are not alike: weft's are of CPU time, one by one; the others "
        "look at all processes at each of theirs, and austin keeps those that sleep, too. Late and lost: in all rounds."
    )
    return row


def with_code(python: Interpreter, settings: Settings) -> Row:
    """Libraries of many small functions, each of them called."""
    py_spy = PySpy("--native")
    peers = (Weft("ptrace", native=True), Weft("bpf", native=True), py_spy)
    row = Row(
        f"Growth with mapped code, with native frames at {MAPPED_HZ} Hz, {python.name}",
        (*_columns(py_spy), "the libraries' functions", "lost"),
    )
    with running_program(python, TARGETS / "mapped.py") as target:
        at_first(row, peers, python, target.pid, settings)
    for megabytes in (10, 100) if settings.quick else (10, 100, 1000):
        what = f", {megabytes:,} MB"
        seen: Seen = {peer: [] for peer in peers}
        for _ in range(settings.rounds):
            try:
                with (
                    _libraries(megabytes) as libraries,
                    running_program(python, TARGETS / "mapped.py", *libraries) as target,
                ):
                    _take_turns(seen, row, python, target.pid, MAPPED_HZ, settings, what)
            except PeerFailedError as error:
                row.missing[f"{megabytes:,} MB"] = str(error)
        for peer, runs in seen.items():
            if runs:
                named, lost = min(map(_named, runs)), in_all([run.told.lost for run in runs])
                row.add(peer.name + what, [*_cells(peer, seen, (py_spy,)), f"{named:.0%}", lost], _measured(runs))
    row.notes.append(
        "Libraries of 100 MB of code (one of 10 MB), in functions of 256 bytes, with symbols and .eh_frame, called in "
        "turns. CPU of the recorder: of one CPU over the whole recording, its start and its end included, and without. "
        "The libraries' functions: the part of the time, the least of all rounds, in which one of them is shown by its "
        "name. Each library is new to weft ptrace; weft bpf, which comes after it, finds the unwind tables that it has "
        "kept. Lost: in all rounds."
    )
    return row


def _take_turns(
    seen: Seen, row: Row, python: Interpreter, pid: int, rate_hz: int, settings: Settings, what: str
) -> None:
    """One round of recordings."""

    def measure(peer: Peer, runs: list[Run]) -> None:
        runs.append(steady_run(peer, python, pid, rate_hz, settings))

    row.take_turns(seen, measure, settings, what)


def _columns(*others: Peer) -> tuple[str, ...]:
    theirs = [f"of {other.name.split()[0]}'s" for other in others]
    return ("CPU of the recorder", *theirs, "without start and end", *theirs, "peak memory", "samples")


def _cells(peer: Peer, seen: Seen, others: Sequence[Peer]) -> list[str]:
    """In the order of _columns: CPU, each beside that of others round by round where it is weft's."""
    runs = seen[peer]
    cells = []
    for figure in (_cpu_percent, _steady_percent):
        own = figure(runs)
        cells.append(spread(own, "%"))
        for other in others:
            beside = [one / another for one, another in zip(own, figure(seen[other]), strict=False)]
            cells.append(spread(beside, "") if isinstance(peer, Weft) and beside else "-")
    return [*cells, memory_of(runs), f"{median(run.told.samples for run in runs):,.0f}"]


def _measured(runs: Sequence[Run]) -> dict[str, list[float]]:
    return {
        "recorder_cpu_percent": _cpu_percent(runs),
        "steady_cpu_percent": _steady_percent(runs),
        "peak_bytes": [run.peak_bytes for run in runs],
    }


def _cpu_percent(runs: Sequence[Run]) -> list[float]:
    return [100 * run.cpu_s / run.seconds for run in runs]


def _steady_percent(runs: Sequence[Run]) -> list[float]:
    return [100 * run.steady_cpu for run in runs]


def _named(run: Run) -> float:
    """The part of the time in which a library's function is shown."""
    spins = sum(weight for stack, weight in run.stacks if any(frame.function == "spin" for frame in stack))
    whole = sum(weight for _, weight in run.stacks)
    return spins / whole if whole else 0


@contextmanager
def _libraries(megabytes: int) -> Iterator[list[Path]]:
    """As much code in libraries; each is another build by its build id. PeerFailedError."""
    each = min(megabytes, LIBRARY_MB)
    text = ASSEMBLY.replace("COUNT", str(each * 1_000_000 // FUNCTION_BYTES)).replace("BYTES", str(FUNCTION_BYTES))
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "code.o"
        _run(["as", "-o", str(whole), "-"], text)
        libraries = [Path(name) / f"code-{each}-{number}.so" for number in range(megabytes // each)]
        for number, library in enumerate(libraries):
            build_id = f"--build-id=0x{os.urandom(4).hex()}{number:08x}"
            _run(["ld", "-shared", "--eh-frame-hdr", build_id, "-o", str(library), str(whole)], "")
        yield libraries


def _run(command: list[str], text: str) -> None:
    try:
        subprocess.run(command, input=text, text=True, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerFailedError(f"a library could not be made: {error}") from None
