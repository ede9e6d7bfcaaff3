"""Rows of growth: with processes, and with the code that a process has mapped."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from interpreters import Interpreter

from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Recording, Run, Weft
from benchmarks.programs import TARGETS, known_to_all, running_program
from benchmarks.results import Row, Settings, memory_of, told

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
    row = Row(
        f"Growth with processes: together they use one CPU, at {FAMILY_HZ} Hz, {python.name}",
        ("CPU of the recorder", "peak memory", "samples", "late", "lost"),
    )
    peers: Sequence[Peer] = (Weft("ptrace", "-s"), Weft("bpf", "-s"), PySpy("-s"), Austin("-C"))
    seconds = settings.seconds
    for count in (1, 10) if settings.quick else (1, 10, 100):
        what = f", {count} processes" if count > 1 else ", 1 process"
        with running_program(python, TARGETS / "family.py", count) as target:
            for peer in peers:
                with row.trying(peer, settings, what):
                    run = Recording(peer, python, target.pid, FAMILY_HZ, seconds).finish()
                    cells, measured = _figures(run, seconds)
                    row.add(peer.name + what, [*cells, told(run.told.late), told(run.told.lost)], measured)
    row.notes.append(
        "CPU of the recorder: of one CPU over the time that was asked for, its start and its end included. Each "
        "process computes a part of the time. Samples are not alike: weft's are of CPU time, one by one; the others "
        "look at all processes at each of theirs, and austin keeps those that sleep, too."
    )
    return row


def _figures(run: Run, seconds: float) -> tuple[list[str], dict[str, list[float]]]:
    percent = 100 * run.cpu_s / seconds
    cells = [f"{percent:.1f} %", memory_of([run]), f"{run.told.samples:,}"]
    return cells, {"recorder_cpu_percent": [percent], "peak_bytes": [run.peak_bytes]}


def with_code(python: Interpreter, settings: Settings) -> Row:
    """Libraries of many small functions, each of them called."""
    row = Row(
        f"Growth with mapped code, with native frames at {MAPPED_HZ} Hz, {python.name}",
        ("CPU of the recorder", "peak memory", "samples", "the libraries' functions", "lost"),
    )
    peers: Sequence[Peer] = (Weft("ptrace", native=True), Weft("bpf", native=True), PySpy("--native"))
    seconds = settings.seconds
    with tempfile.TemporaryDirectory() as name:
        for megabytes in (10, 100) if settings.quick else (10, 100, 1000):
            try:
                libraries = _libraries(Path(name), megabytes)
            except PeerFailedError as error:
                row.missing[f"{megabytes:,} MB"] = str(error)
                continue
            what = f", {megabytes:,} MB"
            with running_program(python, TARGETS / "mapped.py", *libraries) as target:
                for peer in peers:
                    with row.trying(peer, settings, what):
                        run = Recording(peer, python, target.pid, MAPPED_HZ, seconds).finish(stacks=True)
                        cells, measured = _figures(run, seconds)
                        spins = sum(weight for stack, weight in run.stacks if any(f.function == "spin" for f in stack))
                        share = spins / sum(weight for _, weight in run.stacks) if run.stacks else 0.0
                        row.add(peer.name + what, [*cells, f"{share:.0%}", told(run.told.lost)], measured)
    row.notes.append(
        "Libraries of 100 MB of code (one of 10 MB), in functions of 256 bytes, with symbols and .eh_frame, called in "
        "turns. CPU of the recorder: of one CPU, its start and its end included. The libraries' functions: the part of "
        "the time in which one of them is shown by its name. Each library is new to weft ptrace; weft bpf, which comes "
        "after it, finds the unwind tables that it has kept."
    )
    return row


def _libraries(folder: Path, megabytes: int) -> list[Path]:
    """As much code in libraries; each is another build by its build id."""
    each = min(megabytes, LIBRARY_MB)
    whole = folder / f"code-{each}.o"
    if not whole.exists():
        count = str(each * 1_000_000 // FUNCTION_BYTES)
        text = ASSEMBLY.replace("COUNT", count).replace("BYTES", str(FUNCTION_BYTES))
        _run(["as", "-o", str(whole), "-"], text)
    libraries = [folder / f"code-{each}-{number}.so" for number in range(megabytes // each)]
    for number, library in enumerate(libraries):
        if not library.exists():
            build_id = f"--build-id=0x{os.urandom(4).hex()}{number:08x}"
            _run(["ld", "-shared", "--eh-frame-hdr", build_id, "-o", str(library), str(whole)], "")
    return libraries


def _run(command: list[str], text: str) -> None:
    try:
        subprocess.run(command, input=text, text=True, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerFailedError(f"a library could not be made: {error}") from None
