"""Rows of scalene, which is started with its program, inside of it: its shares of CPU time, and what it costs."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from interpreters import Interpreter

from benchmarks.asked import compiled
from benchmarks.launched import Alone, InProcess, Launch, Launcher, launch
from benchmarks.peers import Weft
from benchmarks.programs import TARGETS, known_to_all
from benchmarks.results import Row, Settings, spread
from benchmarks.truth import chance_of, errors_of, probability

PERIOD_S = 0.001
TIMES = 50  # rounds of targets/asks.py
# It gives time to lines, so to the functions that these are in. Of targets/kinds.py, who works for whom:
FOR = {"short": "calls", "numbers": "generators", "dive": "recursion", "gather": "tasks", "task": "tasks"}
SCALENE = InProcess(
    f"scalene --cpu-sampling-rate {PERIOD_S}", ["run", "--cpu-only", "--cpu-sampling-rate", str(PERIOD_S)], ["---"]
)
BY_PERIOD = {0.01: InProcess("scalene", ["run", "--cpu-only"], ["---"]), PERIOD_S: SCALENE}  # as it is, and at 1 kHz


class WeftLaunch:
    """weft record of a command, at the same rate."""

    def __init__(self, collector: str) -> None:
        self._weft = Weft(collector)
        self.name = self._weft.name
        self._collector = collector

    def missing(self, interpreter: Interpreter) -> str:
        """As where it attaches."""
        return self._weft.missing(interpreter)

    def command(self, interpreter: Interpreter, program: Sequence[str], output: Path) -> list[str]:
        """Of the whole run."""
        record = [sys.executable, "-m", "weft", "record", "--collector", self._collector, "--no-native", "-f", "weft"]
        rate = str(round(1 / PERIOD_S))
        return [*record, "-r", rate, "-o", str(output), "--", *interpreter.command, *program]


def scalene(settings: Settings) -> Iterator[Row]:
    """Its shares of a dozen kinds of work, and the slow-down of a program that is started with it."""
    if python := known_to_all():
        yield shares_row(python, settings)
        yield cost_row(python, settings)


def shares_row(python: Interpreter, settings: Settings) -> Row:
    """As the row of shares, of the program's whole run."""
    row = Row(
        f"Shares of CPU time by scalene: a dozen kinds of work in turns, {python.name}",
        ("most off", "points off, in the mean", "chance of as much"),
    )
    seconds = settings.seconds * settings.rounds
    for period_s, peer in BY_PERIOD.items():
        with row.trying(peer, settings), tempfile.TemporaryDirectory() as name:
            script = str(shutil.copy(TARGETS / "kinds.py", name))
            run = launch(peer, python, [script, str(seconds)], Path(name))
            errors = errors_of(percents(json.loads(run.output.read_text()), run.told["cpu_s"]), run.told["cpu_s"])
            worst = max(errors, key=lambda kind: abs(errors[kind]))
            chance = chance_of(errors, run.told["cpu_s"], seconds / period_s)
            cells = [f"{worst} {errors[worst]:+.2f}", f"{fmean(map(abs, errors.values())):.2f}", probability(chance)]
            row.add(peer.name, cells, {"points_off": list(errors.values()), "chance": [chance]})
    row.notes.append(
        "scalene tells times of lines, not stacks; each counts for the kind of work whose function it is in, or for "
        "which that works. It leaves out lines below 1 %. It does not say how many samples it took: chance is of one a "
        "period."
    )
    return row


def percents(told: Mapping[str, Any], kinds: Mapping[str, float]) -> dict[str, float]:
    """By kind of work."""
    sums = dict.fromkeys(kinds, 0.0)
    for file in told["files"].values():
        for each in file["functions"]:
            kind = FOR.get(each["line"], each["line"])
            if kind in sums:
                sums[kind] += each["n_cpu_percent_python"] + each["n_cpu_percent_c"] + each["n_sys_percent"]
    return sums


def cost_row(python: Interpreter, settings: Settings) -> Row:
    """Ordinary work, json and sorting, from start to end."""
    row = Row(
        f"Started with the program, at 1 kHz: json and sorting, {python.name}",
        ("slow-down", "its whole run", "CPU of all"),
    )
    launchers: Sequence[Launcher] = (WeftLaunch("ptrace"), WeftLaunch("bpf"), SCALENE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = [str(shutil.copy(TARGETS / "asks.py", folder)), str(compiled(folder)), str(TIMES)]
        pairs: dict[str, list[tuple[Launch, Launch]]] = {launcher.name: [] for launcher in launchers}
        wall_s = []
        for _ in range(settings.rounds):
            alone = launch(Alone(), python, program, folder)
            wall_s.append(alone.wall_s)
            for launcher in launchers:
                with row.trying(launcher, settings):
                    pairs[launcher.name].append((launch(launcher, python, program, folder), alone))
    for peer, runs in pairs.items():
        if runs:
            slowed = [run.told["works_s"] / alone.told["works_s"] - 1 for run, alone in runs]
            whole = spread([run.wall_s / alone.wall_s for run, alone in runs], "")
            cpu = spread([run.cpu_s / alone.cpu_s for run, alone in runs], "")
            cells = [spread([100 * each for each in slowed], "%"), f"x {whole}", f"x {cpu}"]
            row.add(peer, cells, {"slowed": slowed})
    row.notes.append(
        "Slow-down: of the program's work, in CPU time. Its whole run, and CPU of all: from the start of the command "
        "to its end, the recorder's own start and end with it, against the program alone, which takes "
        f"{median(wall_s):.1f} s. CPU of weft bpf in the kernel is the program's."
    )
    return row
