"""What recording costs a program that switches all the time: two threads that pass a byte to and fro through pipes.

    python -m benchmarks.switches [--seconds 4] [--rounds 3] [--switches 50000]

Each round measures the program alone, and recorded by collector bpf: in mode wall, and in mode cpu, where switches
are not looked at.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from weft import Capture

PROGRAM = """
import os, sys, threading, time
there, back = os.pipe(), os.pipe()
def echo():
    while True:
        os.write(back[1], os.read(there[0], 1))
threading.Thread(target=echo, daemon=True).start()
trips = int(sys.argv[1]) // 200
due = time.monotonic()
while True:
    for _ in range(trips):
        os.write(there[1], b"x")
        os.read(back[0], 1)
    due = max(time.monotonic(), due + 0.01)
    time.sleep(max(0, due - time.monotonic()))
"""
_START = 1.5  # seconds, until weft has begun to record


def _usage(pid: int) -> tuple[float, int]:
    """CPU seconds of a process, and how often its threads have been switched in."""
    files = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(fields[0]) for fields in files) / 1e9, sum(int(fields[2]) for fields in files)


def _measure(pid: int, seconds: float) -> tuple[float, float]:
    """Microseconds of CPU a switch, and switches a second."""
    cpu_s, switches = _usage(pid)
    start = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - start
    cpu_after, switches_after = _usage(pid)
    return 1e6 * (cpu_after - cpu_s) / (switches_after - switches), (switches_after - switches) / passed


def _measure_recorded(pid: int, seconds: float, mode: str, output: Path) -> tuple[float, float]:
    options = ["--collector", "bpf", "--mode", mode, "-d", str(seconds + 2 * _START), "-f", "weft", "-o", str(output)]
    with subprocess.Popen([sys.executable, "-m", "weft", "record", "-p", str(pid), *options]) as weft:
        time.sleep(_START)
        result = _measure(pid, seconds)
        if weft.wait():
            raise SystemExit("weft did not record it")
    return result


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--switches", type=int, default=50_000, help="a second")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"alone": [], "mode cpu": [], "mode wall": []}
    command = [sys.executable, "-c", PROGRAM, str(options.switches)]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command) as target:
        output = Path(folder) / "x.weft"
        time.sleep(1)
        for _ in range(options.rounds):
            found["alone"].append(_measure(target.pid, options.seconds))
            for mode in ("cpu", "wall"):
                found[f"mode {mode}"].append(_measure_recorded(target.pid, options.seconds, mode, output))
        target.kill()
        with Capture(output) as capture:
            account = capture.account()
    alone = median(each[0] for each in found["alone"])
    for name, results in found.items():
        cost, rate = (median(values) for values in zip(*results, strict=True))
        print(f"{name:10} {rate:9,.0f} switches/s  {cost:6.2f} µs CPU each  {100 * (cost / alone - 1):+6.1f} %")
    stays, estimated = account["stays"], account["stays_estimated"]
    cpu_s = account["sampler_cpu_ns"] / 1e9
    print(f"the last recording: {stays:,} stays with a stack, {estimated:,} without; {cpu_s:.2f} s CPU to sample")


if __name__ == "__main__":
    main()
