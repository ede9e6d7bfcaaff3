"""What recording costs, beside py-spy on the same target in the same run: python -m benchmarks

The machine should have nothing else to do. Runs of the recorders, and none, take turns, and medians are told, so that
what else it does falls on all alike.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.recorders import PySpy, Recorder, Recording, Run, Target, Weft, running_target

WARM_UP_S = 1.5  # a recorder's start is over by then
HOUR_S = 3600
SORTS = 4  # about 30 native frames in 3.13
MAX_FILE_MB = 150


def default_python() -> str:
    """The newest 3.13 of pyenv, else the one that runs this."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(pyenv.glob("versions/3.13.*/bin/python"))
    return str(found[-1]) if found else sys.executable


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What recording costs.")
    parser.add_argument("--python", default=default_python(), help="the interpreter of the target")
    parser.add_argument("--seconds", type=float, default=6, help="of one recording")
    parser.add_argument("--rounds", type=int, default=5, help="recordings of each kind")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{options.python}, {os.cpu_count()} CPUs, load {load:.1f}")
    if load > 1:
        print("The machine is busy: only the ratios mean something, and they not much.")
    with running_target(options.python, 1, 0) as target:
        title = "1 kHz, 30 frames, one busy thread"
        compare(title, [*wefts(native=False), PySpy()], target, options.seconds, options.rounds)
        rates(target, options.seconds)
    with running_target(options.python, 1, 0, sorts=SORTS) as target:
        title = "1 kHz, 30 Python and 30 native frames, one busy thread"
        compare(title, [*wefts(native=True), PySpy(native=True)], target, options.seconds, options.rounds)
    threads(options.python, options.seconds)
    file_size(options.python, options.seconds)


def wefts(*, native: bool) -> list[Recorder]:
    """Weft with each collector that this user may use."""
    collectors = ["ptrace", "bpf"] if os.geteuid() == 0 else ["ptrace"]
    return [Weft(native=native, collector=collector) for collector in collectors]


class Slowed(NamedTuple):
    """What a target lost under a recorder: the share of its work, and of the time that it had a CPU."""

    work: float
    off_cpu: float


def compare(title: str, recorders: list[Recorder], target: Target, seconds: float, rounds: int) -> None:
    """Cost and slow-down at 1 kHz.

    A virtual machine's speed may change by a third from one second to the next, and the slow-down with it. The share of
    the time for which the target was not on a CPU does not; it leaves out what interrupts and cold caches cost.
    """
    long: dict[str, list[Run]] = {recorder.name: [] for recorder in recorders}
    short: dict[str, list[Run]] = {recorder.name: [] for recorder in recorders}
    slowed: dict[str, list[Slowed]] = {recorder.name: [] for recorder in recorders}
    for _ in range(rounds):
        for recorder in recorders:
            short[recorder.name].append(Recording(recorder, target, 1000, 1).finish())
            before = target.speed(seconds / 2)
            recording = Recording(recorder, target, 1000, seconds + WARM_UP_S)
            target.speed(WARM_UP_S)
            under = target.speed(seconds - 1)
            long[recorder.name].append(recording.finish())
            after = target.speed(seconds / 2)
            work = 1 - 2 * under.work / (before.work + after.work)
            slowed[recorder.name].append(Slowed(work, (before.cpu_s + after.cpu_s) / 2 - under.cpu_s))
    rows = [cost_row(name, short[name], long[name], slowed[name]) for name in long]
    table(title, ["", *COST_COLUMNS], rows)
    *own, other = (marginal_us(short[recorder.name], long[recorder.name]) for recorder in recorders)
    for recorder, cost in zip(recorders, own, strict=False):
        print(f"The CPU of {recorder.name} a sample is {cost / other:.3f} of py-spy's.")


COST_COLUMNS = [
    "CPU/sample",
    "without start",
    "slow-down",
    "off CPU",
    "hold median",
    "longest",
    "samples",
    "late",
    "lost",
]


def cost_row(name: str, short: list[Run], long: list[Run], slowed: list[Slowed]) -> list[str]:
    last = long[-1]
    return [
        name,
        f"{median(run.cpu_s / max(run.samples, 1) for run in long) * 1e6:.1f} µs",
        f"{marginal_us(short, long):.1f} µs",
        f"{median(each.work for each in slowed):.1%}",
        f"{median(each.off_cpu for each in slowed):.1%}",
        micros([run.hold_median_s for run in long]),
        micros([run.hold_longest_s for run in long]),
        f"{median(run.samples for run in long):.0f}",
        told(last.late),
        told(last.lost),
    ]


def marginal_us(short: list[Run], long: list[Run]) -> float:
    """The CPU time of one more sample, in µs: the cost of the start is in both, and falls out."""
    cpu = median(run.cpu_s for run in long) - median(run.cpu_s for run in short)
    samples = median(run.samples for run in long) - median(run.samples for run in short)
    return cpu / max(samples, 1) * 1e6


def rates(target: Target, seconds: float) -> None:
    """Do high rates hold? What does not is counted."""
    rows = []
    for rate_hz in (1000, 2000, 5000, 10_000):
        run = Recording(Weft(), target, rate_hz, seconds).finish()
        held = f"{run.samples / run.seconds:,.0f}/s"
        cpu = f"{run.cpu_s / run.seconds:.1%}"
        rows.append([f"{rate_hz:,} Hz", held, told(run.late), told(run.lost), cpu, micros([run.hold_median_s])])
    table("rates", ["asked", "had", "late", "lost", "CPU of weft", "hold median"], rows)


def threads(python: str, seconds: float) -> None:
    """200 threads of which two run should cost what two do."""
    rows = []
    for blocked in (0, 198):
        with running_target(python, 2, blocked) as target:
            runs = [Recording(Weft(), target, 1000, length).finish() for length in (1, 1 + seconds)]
            cpu = (runs[1].cpu_s - runs[0].cpu_s) / (runs[1].seconds - runs[0].seconds)
            rows.append([f"2 of {2 + blocked} threads run", f"{cpu:.2%}", f"{marginal_us(runs[:1], runs[1:]):.1f} µs"])
    table("idle threads, 1 kHz", ["", "CPU of weft without its start", "CPU/sample"], rows)


def file_size(python: str, seconds: float) -> None:
    """An hour of eight threads at 1 kHz, extrapolated from seconds: what is written at the start counts as often."""
    with running_target(python, 8, 0) as target:
        short, long = (Recording(Weft(), target, 1000, length).finish() for length in (2, 2 + 2 * seconds))
    grown = (long.file_bytes - short.file_bytes) / (long.seconds - short.seconds)
    megabytes = (short.file_bytes + grown * HOUR_S) / 1e6
    print(f"\nAn hour of eight threads at 1 kHz: {megabytes:.0f} MB (at most {MAX_FILE_MB} MB are wanted).")


def micros(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known) * 1e6:.1f} µs" if known else "-"


def told(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}")
    for line in aligned([header, *rows]):
        print(f"  {line}")


def aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([f"{first:<{widths[0]}}", *cells])


main()
