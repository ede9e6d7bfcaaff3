"""What recording all of a machine costs: `weft record -a` at 99 Hz, beside `perf record -a --call-graph dwarf`.

    python -m benchmarks.machine [--seconds 20] [--programs 20] [--rate 99]

20 Python programs each compute for half a millisecond of every ten. Of each recorder is told, once it has begun: its
CPU time, of all its threads and children, in percent of one core; the time of its programs in the kernel (weft), which
is no process's; the most memory that was resident at one time, and what its maps take of the kernel's. As root; perf is
Debian's linux-perf.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kernel_time import count_in_kernel, kernel_time
from benchmarks.processes import most_resident_bytes, tree
from weft import Capture

PROGRAM = """
import sys, time
def leaf(until):
    n = 0
    while time.thread_time() < until:
        n += 1
def down(depth, until):
    return leaf(until) if depth == 0 else sorted([0], key=lambda _: down(depth - 1, until))
while True:
    down(int(sys.argv[1]), time.thread_time() + 0.0005)
    time.sleep(0.0095)
"""
_DEPTH = 6
_START = 6.0  # seconds, in which a recorder finds the programs and their symbols
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """What a recorder has used up to a moment. Seconds; bytes."""

    cpu_s: float
    kernel_s: float
    runs: int
    most_resident: int
    maps: int


def _cost(pid: int) -> Cost:
    cost = Cost(0.0, 0.0, 0, most_resident_bytes(pid), 0)
    for each in tree(pid):
        stat = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        cost.cpu_s += sum(map(int, stat[11:15])) / _TICKS  # its own, and of children that have ended
    in_kernel = kernel_time(pid)
    cost.kernel_s, cost.runs, cost.maps = in_kernel.seconds, in_kernel.runs, in_kernel.maps
    return cost


def _record(name: str, command: Sequence[str], seconds: float) -> None:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recorder:
        time.sleep(_START)
        before, start = _cost(recorder.pid), time.monotonic()
        time.sleep(seconds)
        after, passed = _cost(recorder.pid), time.monotonic() - start
        recorder.send_signal(signal.SIGINT)
    cpu = 100 * (after.cpu_s - before.cpu_s) / passed
    in_kernel = 100 * (after.kernel_s - before.kernel_s) / passed
    a_run = 1e6 * (after.kernel_s - before.kernel_s) / max(1, after.runs - before.runs)
    print(
        f"{name:34} {cpu:6.2f} % of a core, and {in_kernel:.2f} % in the kernel ({a_run:.1f} us a run); "
        f"{after.most_resident / 2**20:.0f} MB resident, and {after.maps / 2**20:.0f} MB in the kernel",
        flush=True,
    )


def main() -> None:
    """Measure, and print a line for each recorder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--rate", type=int, default=99)
    options = parser.parse_args()
    count_in_kernel()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        for _ in range(options.programs):
            program = opened.enter_context(subprocess.Popen([sys.executable, "-c", PROGRAM, str(_DEPTH)]))
            opened.callback(program.kill)
        weft = [sys.executable, "-m", "weft", "record", "-a", "-r", str(options.rate), "-f", "weft", "-o"]
        _record("weft record -a", [*weft, str(folder / "cpu.weft")], options.seconds)
        _record("weft record -a --mode wall", [*weft, str(folder / "wall.weft"), "--mode", "wall"], options.seconds)
        with Capture(folder / "cpu.weft") as capture:
            account = capture.account()
        print(f"  samples: {account['samples_taken']:,}, dropped {account['samples_dropped']:,}")
        if perf := shutil.which("perf"):
            command = [perf, "record", "-q", "-a", "--call-graph", "dwarf", "-e", "cpu-clock", "-F", str(options.rate)]
            _record("perf record -a --call-graph dwarf", [*command, "-o", str(folder / "perf.data")], options.seconds)
            print(f"  perf.data: {(folder / 'perf.data').stat().st_size / 2**20:.0f} MB")
            print(f"  cpu.weft: {(folder / 'cpu.weft').stat().st_size / 2**20:.1f} MB")


if __name__ == "__main__":
    main()
