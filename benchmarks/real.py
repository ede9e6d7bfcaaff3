"""Rows of real programs, from PyPI, as people run them: what it costs them to be recorded."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

from interpreters import Interpreter

from benchmarks import install
from benchmarks.peers import Austin, Peer, PySpy, Recording, Run, Weft
from benchmarks.processes import cpu_s_of
from benchmarks.programs import TARGETS, Speed, known_to_all, running_counter, running_program
from benchmarks.results import Row, Settings, in_all, memory_of, spread

FOLDER = TARGETS / "real"
RATE_HZ = 250
WARM_UP_S = 2.0  # recorders read symbols when they begin
ROUNDS = 2
PEERS: Sequence[Peer] = (Weft("ptrace", native=True), Weft("bpf", native=True), PySpy("--native"), Austin())
WITH_CHILDREN: Sequence[Peer] = (
    Weft("ptrace", "-s", native=True), Weft("bpf", "-s", native=True), PySpy("--native", "-s"), Austin("-C"),
)  # fmt: skip
PACKAGES = {  # by environment
    "flask": ["flask==3.1.2", "waitress==3.0.2"],
    "programs": ["numpy==2.3.4", "pandas==2.3.3", "scikit-learn==1.7.2", "lxml==6.0.2", "pytest==8.4.2"],
    "torch": ["torch==2.13.0"],  # of 200 MB, or of gigabytes where PyPI has it
}
ENVIRONMENTS = {"Flask": "flask", "PyTorch": "torch"}  # of the other programs "programs"
SERVERS = {"Flask": ("flask_app.py", ["/", "/items"]), "asyncio server": ("asyncio_server.py", ["/"])}
POOL = "pool of processes"
WORK = {
    "pandas": "pandas",
    "scikit-learn": "scikit_learn",
    "lxml (Cython)": "lxml",
    "pytest": "pytest",
    POOL: "pool",
    "PyTorch": "torch",
}
QUICKLY = ("Flask",)  # of the quick bench


class Program(Protocol):
    """One that runs."""

    pid: int

    def speed(self, seconds: float) -> Speed:
        """How fast it is, over so many seconds from now."""


@dataclass
class Server:
    """One that answers a client of ours, which asks as fast as it is answered."""

    pid: int
    client: list[str]  # its command, without the time
    paths: list[str]

    def speed(self, seconds: float) -> Speed:
        """Requests a second."""
        before = cpu_s_of(self.pid)
        run = subprocess.run([*self.client, str(seconds), *self.paths], check=True, capture_output=True)
        answer = json.loads(run.stdout)
        cpu_s = (cpu_s_of(self.pid) - before) / seconds
        return Speed(answer["requests"], cpu_s, answer["p50_ms"], answer["p99_ms"])


@contextlib.contextmanager
def running(name: str, python: Interpreter) -> Iterator[Program]:
    """One of the programs."""
    if name in WORK:
        with running_counter(python, FOLDER / "work.py", WORK[name]) as worker:
            yield worker
        return
    script, paths = SERVERS[name]
    with running_program(python, FOLDER / script) as target:
        yield Server(target.pid, [*python.command, str(FOLDER / "load.py"), str(target.ready["port"])], paths)


def with_packages(environment: str, python: Interpreter) -> Interpreter | None:
    """The Python of an environment with its packages. None, and pip says what went wrong: they cannot be installed."""
    if not install.make(environment, PACKAGES[environment], python.command[0]):
        return None
    return replace(python, command=[str(install.program(environment, "python"))])


def real(settings: Settings) -> Iterator[Row]:
    """Each program beside itself, recorded by each peer in turn."""
    python = known_to_all((3, 11))
    columns = ("slow-down", "p50", "p99", "CPU of the recorder", "peak memory", "samples", "late", "lost")
    row = Row(
        f"Real programs, recorded at {RATE_HZ} Hz with native frames, on {python.name if python else 3.11}", columns
    )
    if python is None:
        row.notes.append("Not measured: there is no CPython 3.9 to 3.11.")
        yield row
        return
    by_environment: dict[str, list[str]] = {}
    for name in QUICKLY if settings.quick else (*SERVERS, *WORK):
        by_environment.setdefault(ENVIRONMENTS.get(name, "programs"), []).append(name)
    for environment, names in by_environment.items():
        its_python = with_packages(environment, python)
        if its_python is None:
            row.notes.append(f"{', '.join(names)}: not measured, since {environment} could not be installed.")
            continue
        for name in names:
            with running(name, its_python) as program:
                measure(row, name, program, its_python, WITH_CHILDREN if name == POOL else PEERS, settings)
    row.notes.append(
        "Slow-down: of rounds of work, or requests, a second, against before and after. p50 and p99: what a client of "
        "the server waits, recorded, and not. CPU of the recorder: in percent of one CPU, its start and its end "
        "included. austin knows no native frames. The pool is recorded with its children. Late and lost: in all rounds."
    )
    yield row


def measure(
    row: Row, name: str, program: Program, python: Interpreter, peers: Sequence[Peer], settings: Settings
) -> None:
    """A line for each peer."""
    rounds: dict[Peer, list[tuple[Speed, Speed, Speed, Run]]] = {peer: [] for peer in peers}
    program.speed(1)
    before = program.speed(settings.seconds / 2)
    for _ in range(min(settings.rounds, ROUNDS)):
        for peer, seen in rounds.items():
            with row.trying(peer, settings, f", {name}"):
                recording = Recording(peer, python, program.pid, RATE_HZ, round(settings.seconds + WARM_UP_S + 1))
                program.speed(WARM_UP_S)
                under = program.speed(settings.seconds)
                run = recording.finish()
                after = program.speed(settings.seconds / 2)
                seen.append((before, under, after, run))
                before = after
    for peer, seen in rounds.items():
        if seen:
            slowed = [1 - 2 * under.work / (before.work + after.work) for before, under, after, _ in seen]
            cpu = [100 * run.cpu_s / run.seconds for *_, run in seen]
            runs = [run for *_, run in seen]
            cells = [
                spread([100 * each for each in slowed], "%"),
                _waited([(u.p50_ms, b.p50_ms) for b, u, *_ in seen]),
                _waited([(u.p99_ms, b.p99_ms) for b, u, *_ in seen]),
                spread(cpu, "%"),
                memory_of(runs),
                f"{median(run.told.samples for run in runs):,.0f}",
                in_all([run.told.late for run in runs]),
                in_all([run.told.lost for run in runs]),
            ]
            measured = {
                "slowed": slowed,
                "recorder_cpu_percent": cpu,
                "peak_bytes": [run.peak_bytes for run in runs],
                "samples": [run.told.samples for run in runs],
                "p50_ms": [under.p50_ms for _, under, *_ in seen if under.p50_ms is not None],
                "p99_ms": [under.p99_ms for _, under, *_ in seen if under.p99_ms is not None],
            }
            row.add(f"{name}: {peer.name}", cells, measured)


def _waited(pairs: list[tuple[float | None, float | None]]) -> str:
    known = [(under, alone) for under, alone in pairs if under is not None and alone is not None]
    if not known:
        return "-"
    under, alone = (median(times) for times in zip(*known, strict=True))
    return f"{under:.1f}, {alone:.1f} ms"
