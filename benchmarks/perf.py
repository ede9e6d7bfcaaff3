"""Rows of Linux's perf, which knows Python's functions if the program is run with -X perf (CPython 3.12 and later).

For builds without frame pointers CPython's documentation has -X perf_jit (3.13 and later), with perf inject --jit
before the file is read: the trampolines have unwind tables then.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from interpreters import Interpreter

from benchmarks.cost import SORTS, at_first, beside_work
from benchmarks.peers import Peer, PeerFailedError, Recording, Run, Stack, Told, Weft, places
from benchmarks.programs import TARGETS, Worker, known_to_all, running_program, running_worker
from benchmarks.results import Row, Settings, in_all, memory_of, spread
from weft.sample import Frame, FrameKind

RATES_HZ = (99, 1000)
DEPTH = 26  # of targets/worker.py
ROOT = "run"  # the function of the thread that computes
MACHINE_HZ = 99
PROCESSES = 20
COLUMNS = (
    "CPU/sample",
    "without start and end",
    "to read it",
    "slow-down",
    "file/sample",
    "Python frames",
    "to the root",
    "samples",
    "lost",
)


class Perf:
    """perf record of one process, its stacks by unwind tables (dwarf) or by frame pointers (fp)."""

    good = frozenset({0})

    def __init__(self, call_graph: str) -> None:
        self.name = f"perf --call-graph {call_graph}"
        self._call_graph = call_graph

    def missing(self, interpreter: Interpreter) -> str:
        """Without -X perf it sees no function of Python's."""
        if shutil.which("perf") is None:
            return "it is not installed"
        return "" if interpreter.minor >= (3, 12) else "before 3.12 there is no -X perf"

    def version(self) -> str:
        """As it says."""
        if shutil.which("perf") is None:
            return "no perf"
        run = subprocess.run(["perf", "--version"], check=False, capture_output=True, text=True)
        return run.stdout.strip().replace("version ", "")

    def command(self, pid: int, rate_hz: int, seconds: float, output: Path) -> list[str]:
        """The command line of a recording."""
        record = ["perf", "record", "-k", "mono", "-F", str(rate_hz), "--call-graph", self._call_graph]
        return [*record, "-o", str(output), *self._of(pid), "--", "sleep", str(seconds)]

    def _of(self, pid: int) -> list[str]:
        return ["-p", str(pid)]

    def told(self, output: Path, said: str) -> Told:
        """By its own statistics of the file."""
        report = ["perf", "report", "--stats", "--stdio", "-i", str(output)]
        text = _said_by(report)
        counts = {name: int(count) for name, count in re.findall(r"(\w+) events:\s+(\d+)", text)}
        if "SAMPLE" not in counts:
            raise PeerFailedError("its file has no samples")
        script = ["perf", "script", "--show-lost-events", "-F", "ip", "-i", str(output)]
        losses = re.findall(r"PERF_RECORD_LOST\w*.*?lost (\d+)", _said_by(script))
        return Told(samples=counts["SAMPLE"], lost=sum(map(int, losses)))

    def stacks(self, output: Path) -> Iterator[tuple[Stack, float]]:
        """A paragraph a sample, its frames a line each, the innermost first."""
        injected = output.with_name("injected")  # a code object of its own for each trampoline, beside the jitdump
        inject = ["perf", "inject", "--jit", "-i", output, "-o", injected]
        made = subprocess.run(inject, check=False, capture_output=True).returncode == 0  # not of forked processes
        script = ["perf", "script", "--no-inline", "-F", "ip,sym,dso", "-i", str(injected if made else output)]
        text = _said_by(script)
        for sample in text.split("\n\n"):
            lines = [re.fullmatch(r"\s*[0-9a-f]+ (.*) \((.*)\)", line) for line in sample.splitlines()]
            if frames := [_frame(line[1], line[2]) for line in lines if line]:
                yield tuple(reversed(frames)), 1.0


def _said_by(command: Sequence[str]) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True, errors="replace").stdout


def _frame(symbol: str, module: str) -> Frame:
    """The trampolines of -X perf are `py::function:file`."""
    found = re.fullmatch(r"py::(.*):([^:]*)", symbol)
    return Frame(FrameKind.PYTHON, found[1], found[2], 1) if found else Frame(FrameKind.NATIVE, symbol, module, 0)


class PerfOfMachine(Perf):
    """perf record -a."""

    def __init__(self) -> None:
        super().__init__("dwarf")
        self.name = "perf -a --call-graph dwarf"

    def missing(self, interpreter: Interpreter) -> str:
        """The whole machine is root's."""
        return super().missing(interpreter) or ("it needs root" if os.geteuid() else "")

    def _of(self, pid: int) -> list[str]:
        return ["-a"]


class WeftOfMachine(Weft):
    """weft record -a, with native frames."""

    def __init__(self) -> None:
        super().__init__("bpf", native=True)
        self.name = "weft -a --native"

    def command(self, pid: int, rate_hz: int, seconds: float, output: Path) -> list[str]:
        """The command line of a recording."""
        record = [sys.executable, "-m", "weft", "record", "-a", "--native", "-f", "weft", "-r", str(rate_hz)]
        return [*record, "-d", str(seconds), "-o", str(output)]


def perf(settings: Settings) -> Iterator[Row]:
    """One busy thread beside perf, and the whole machine with twenty processes."""
    python = known_to_all()
    if python is None or python.minor != (3, 13):
        return
    with_jitdump = replace(python, command=[*python.command, "-X", "perf_jit"])
    yield one_thread(with_jitdump, settings)
    yield whole_machine(with_jitdump, settings)


def one_thread(python: Interpreter, settings: Settings) -> Row:
    """30 Python and 30 native frames, at perf's usual rate and at weft's."""
    row = Row(f"Beside perf: 30 Python and 30 native frames, with -X perf_jit, {python.name}", COLUMNS)
    peers: Sequence[Peer] = (
        Weft("ptrace", native=True), Weft("bpf", native=True), Perf("dwarf"), Perf("dwarf,65528"), Perf("fp"),
    )  # fmt: skip
    with running_worker(python, sorts=SORTS) as worker:
        at_first(row, peers, python, worker.pid, settings)

        def measure(rate_hz: int, peer: Peer, rounds: list[Measured]) -> None:
            rounds.append(measured(peer, python, worker, rate_hz, settings))

        for rate_hz in RATES_HZ:
            what = f", {rate_hz:,} Hz"
            seen: dict[Peer, list[Measured]] = {peer: [] for peer in peers}
            for _ in range(settings.rounds):
                row.take_turns(seen, partial(measure, rate_hz), settings, what)
            for peer, rounds in seen.items():
                if rounds:
                    add(row, peer.name + what, rounds)
        remove_jitdump(worker.pid)
    row.notes.append(
        f"Python frames: of the {DEPTH + 3} or so that there are, in the mean. To the root: the part of the stacks "
        "that has the thread's first function. perf by unwind tables (dwarf) copies 8 KB of stack a sample, or what is "
        "told, and unwinds it when the file is read; what is deeper is not there. By frame pointers (fp) it ends where "
        "code has none. To read it: CPU time of perf inject and perf script (without inlined functions), and of weft's "
        "own reading of the capture; weft names its frames when a recording ends. perf writes when half of its ring is "
        "full, at 99 Hz by frame pointers so seldom that the figure without start and end may have nothing of it. Its "
        "CPU is that of its process: to copy a stack takes time of the program, as weft bpf's walk does, which is in "
        "weft's CPU. Slow-down: of the program with -X perf_jit, which slows it itself."
    )
    return row


def remove_jitdump(pid: int) -> None:
    """What CPython and perf inject leave in /tmp."""
    for file in [*Path("/tmp").glob(f"jit-{pid}.dump"), *Path("/tmp").glob(f"jitted-{pid}-*.so")]:
        file.unlink()


class Measured(NamedTuple):
    """A recording, and the share of its work that the target lost under it."""

    run: Run
    slowed: float


def measured(peer: Peer, python: Interpreter, worker: Worker, rate_hz: int, settings: Settings) -> Measured:
    """One round. PeerFailedError."""
    run, slowed, _ = beside_work(peer, python, worker, rate_hz, settings)
    if not run.told.samples:
        raise PeerFailedError("it has no samples")
    return Measured(run, slowed)


def add(row: Row, name: str, rounds: Sequence[Measured]) -> None:
    """A line."""
    runs = [each.run for each in rounds]
    cpu_us, steady_us, read_us = zip(
        *(
            [1e6 * seconds / run.told.samples for seconds in (run.cpu_s, run.steady_cpu * run.seconds, run.read_cpu_s)]
            for run in runs
        ),
        strict=True,
    )
    slowed = [each.slowed for each in rounds]
    frames, to_root = zip(*(python_of(run.stacks) for run in runs), strict=True)
    cells = [spread(cpu_us, "µs"), spread(steady_us, "µs"), spread(read_us, "µs")]
    cells += [spread([100 * each for each in slowed], "%")]
    cells += [f"{median(run.file_bytes / run.told.samples for run in runs) / 1e3:.1f} KB"]
    cells += [f"{median(frames):.1f}", f"{median(to_root):.0%}"]
    cells += [f"{median(run.told.samples for run in runs):,.0f}", in_all([run.told.lost for run in runs])]
    figures = {"cpu_us_a_sample": cpu_us, "steady_cpu_us": steady_us, "read_us": read_us, "slowed": slowed}
    row.add(name, cells, {**figures, "to_root": to_root})


def python_of(stacks: Sequence[tuple[Stack, float]]) -> tuple[float, float]:
    """How many Python frames a stack has in the mean, and the part that has the thread's root. PeerFailedError."""
    whole = sum(weight for _, weight in stacks)
    if not whole:
        raise PeerFailedError("it recorded no stack")
    seen = [([function for function, _ in places(stack)], weight) for stack, weight in stacks]
    frames = sum(len(functions) * weight for functions, weight in seen)
    rooted = sum(weight for functions, weight in seen if any(_last(name) == ROOT for name in functions[:4]))
    return frames / whole, rooted / whole


def _last(qualified: str) -> str:
    return qualified.rpartition(".")[2]


def whole_machine(python: Interpreter, settings: Settings) -> Row:
    """The machine, with twenty processes of Python's."""
    row = Row(
        f"The whole machine at {MACHINE_HZ} Hz: {PROCESSES} processes with -X perf_jit that use one CPU, {python.name}",
        ("CPU of the recorder", "to read it", "peak memory", "file", "samples", "lost"),
    )
    seconds = settings.seconds + 2
    seen: dict[Peer, list[Run]] = {WeftOfMachine(): [], PerfOfMachine(): []}
    with running_program(python, TARGETS / "family.py", PROCESSES) as target:
        at_first(row, list(seen), python, target.pid, settings)

        def measure(peer: Peer, runs: list[Run]) -> None:
            runs.append(Recording(peer, python, target.pid, MACHINE_HZ, seconds).finish(stacks=True))

        for _ in range(settings.rounds):
            row.take_turns(seen, measure, settings)
    for peer, runs in seen.items():
        if runs:
            cpu_percent = [100 * run.cpu_s / run.seconds for run in runs]
            cells = [spread(cpu_percent, "%"), spread([run.read_cpu_s for run in runs], "s"), memory_of(runs)]
            cells += [f"{median(run.file_bytes for run in runs) / 1e6:.2f} MB"]
            cells += [f"{median(run.told.samples for run in runs):,.0f}", in_all([run.told.lost for run in runs])]
            peaks = [run.peak_bytes for run in runs]
            row.add(peer.name, cells, {"recorder_cpu_percent": cpu_percent, "peak_bytes": peaks})
    row.notes.append(
        f"CPU of the recorder: of one CPU, over {seconds:.0f} s, its start and its end included. To read it: the CPU "
        "time of perf inject and perf script, and of weft's own reading. Both record all that runs. Lost: in all."
    )
    return row
