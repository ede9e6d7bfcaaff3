"""Measures and prints: CPU a sample, slow-down of the target, holds, many threads, high rates.

    python -m benchmarks [PYTHON]

PYTHON runs the target; by default pyenv's 3.13, or this one. Runs of the profilers are interleaved, figures are medians,
and what counts are the ratios: the machine is as noisy as it is, and its load is printed with them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
TARGET = Path(__file__).with_name("busy.py")
ROUNDS = 5
LONG_S, SHORT_S = 9.0, 3.0
MARGIN_S = 1.5  # the target outlives the recording by this much
RATE_HZ = 1000


@dataclass(frozen=True, slots=True)
class Run:
    """One recording: what the profiler used, what it got, and how fast the target was meanwhile."""

    cpu_s: float
    samples: int
    turns_per_s: float
    account: dict[str, int]


class Bench:
    """Runs the target with one interpreter, alone or under a profiler."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._folder = Path(tempfile.mkdtemp(prefix="weft-bench-"))

    def alone(self, seconds: float, *shape: int) -> float:
        """Turns a second of the target that nobody looks at."""
        target = self._start(seconds, *shape)
        return float(target.communicate()[0])

    def weft(self, seconds: float, rate_hz: int = RATE_HZ, *shape: int) -> Run:
        """Record with weft."""
        capture = self._folder / "run.weft"
        command = [BIN / "weft", "record", "-r", str(rate_hz), "-d", str(seconds), "-o", capture, "-p"]
        cpu_s, turns = self._under(command, seconds, *shape)
        report = subprocess.run([BIN / "weft", "report", "--json", capture], capture_output=True, check=True)
        account = json.loads(report.stdout)["account"]
        account["lost_count"] = sum(reason["count"] for reason in account["lost"])
        return Run(cpu_s, account["samples_taken"], turns, account)

    def py_spy(self, seconds: float, rate_hz: int = RATE_HZ, *shape: int) -> Run:
        """Record with py-spy; its own count of samples is one a tick, whatever the number of threads."""
        output = self._folder / "py-spy.txt"
        length = str(round(seconds))
        command = [BIN / "py-spy", "record", "-r", str(rate_hz), "-d", length, "-f", "raw", "-o", output, "-p"]
        cpu_s, turns = self._under(command, seconds, *shape)
        samples = sum(int(line.rpartition(" ")[2]) for line in output.read_text().splitlines())
        return Run(cpu_s, samples, turns, {})

    def _start(self, seconds: float, *shape: int) -> subprocess.Popen[str]:
        command = [self._python, str(TARGET), str(seconds), *map(str, shape)]
        target = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert target.stdout is not None
        target.stdout.readline()
        return target

    def _under(self, command: list[str | Path], seconds: float, *shape: int) -> tuple[float, float]:
        """CPU seconds of the profiler, all of it, and turns a second of the target."""
        target = self._start(seconds + MARGIN_S, *shape)
        profiler = subprocess.Popen([*command, str(target.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(profiler.pid, 0)
        turns = float(target.communicate()[0])
        if status:
            raise RuntimeError(f"{command[0]} ended with status {status}")
        return usage.ru_utime + usage.ru_stime, turns


def _marginal_us(long: list[Run], short: list[Run]) -> float:
    """CPU of one more sample, without what starting and ending cost."""
    pairs = zip(long, short, strict=True)
    return statistics.median((a.cpu_s - b.cpu_s) / max(a.samples - b.samples, 1) * 1e6 for a, b in pairs)


def _median(runs: list[Run], figure: Callable[[Run], float]) -> float:
    return statistics.median(figure(run) for run in runs)


def cost(bench: Bench) -> None:
    """CPU a sample and slow-down, weft beside py-spy."""
    runs: dict[str, list[Run]] = {name: [] for name in ("weft", "weft short", "py-spy", "py-spy short")}
    slow: dict[str, list[float]] = {"weft": [], "py-spy": []}
    for _ in range(ROUNDS):
        free = bench.alone(LONG_S + MARGIN_S)
        for name, record in (("weft", bench.weft), ("py-spy", bench.py_spy)):
            runs[name].append(record(LONG_S))
            runs[f"{name} short"].append(record(SHORT_S))
            # The target runs on for MARGIN_S after the recording: the slow-down is all in the rest.
            lost = (1 - runs[name][-1].turns_per_s / free) * (LONG_S + MARGIN_S) / LONG_S
            slow[name].append(lost)
    print(f"\nOne busy thread, calls about 30 deep, {RATE_HZ} Hz, {ROUNDS} rounds of {LONG_S:.0f} s")
    print(f"{'':10}{'us/sample, all':>16}{'us/sample, marginal':>21}{'samples':>9}{'slow-down':>11}")
    whole, marginal = {}, {}
    for name in ("weft", "py-spy"):
        whole[name] = _median(runs[name], lambda run: run.cpu_s / run.samples * 1e6)
        marginal[name] = _marginal_us(runs[name], runs[f"{name} short"])
        samples = _median(runs[name], lambda run: run.samples)
        print(f"{name:10}{whole[name]:16.1f}{marginal[name]:21.1f}{samples:9.0f}{statistics.median(slow[name]):11.1%}")
    print(f"{'ratio':10}{whole['weft'] / whole['py-spy']:16.3f}{marginal['weft'] / marginal['py-spy']:21.3f}")
    holds = _median(runs["weft"], lambda run: run.account["hold_ns_median"] / 1e3)
    longest = max(run.account["hold_ns_max"] for run in runs["weft"]) / 1e3
    late = sum(run.account["samples_late"] for run in runs["weft"])
    print(f"weft held the thread {holds:.1f} us in the median, {longest:.0f} us at most; {late} samples late in all")


def many_threads(bench: Bench) -> None:
    """200 threads of which 2 run, beside 2 threads."""
    print(f"\nTwo busy threads, {RATE_HZ} Hz: CPU of the profiler in ms a second")
    for name, record in (("weft", bench.weft), ("py-spy", bench.py_spy)):
        few, many = (
            statistics.median(record(SHORT_S, RATE_HZ, 2, idle).cpu_s / SHORT_S * 1e3 for _ in range(3))
            for idle in (0, 198)
        )
        print(f"{name:10}{few:8.0f} alone{many:8.0f} beside 198 that sleep")


def rates(bench: Bench) -> None:
    """Whether high rates hold."""
    print(f"\n{'rate':>8}{'samples/s':>11}{'late':>7}{'lost':>7}{'hold us':>9}{'us/sample':>11}")
    for rate_hz in (100, 1000, 2000, 5000, 10_000):
        run = bench.weft(SHORT_S, rate_hz)
        account = run.account
        print(
            f"{rate_hz:8}{run.samples / SHORT_S:11.0f}{account['samples_late']:7}{account['lost_count']:7}"
            f"{account['hold_ns_median'] / 1e3:9.1f}{run.cpu_s / max(run.samples, 1) * 1e6:11.1f}"
        )


def main() -> None:
    """Run all, on the interpreter that was asked for."""
    pyenv = sorted(Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv").glob("versions/3.13.*/bin/python"))
    python = sys.argv[1] if len(sys.argv) > 1 else str(pyenv[-1]) if pyenv else sys.executable
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{version}; load average {os.getloadavg()[0]:.1f} before, {os.cpu_count()} CPUs")
    bench = Bench(python)
    cost(bench)
    many_threads(bench)
    rates(bench)
    print(f"\nload average {os.getloadavg()[0]:.1f} after")


main()
