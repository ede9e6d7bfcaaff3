"""What the kernel collector takes for one sample, on each interpreter: the time of its BPF program, by its runs.

    python -m benchmarks.kernel_walk [--seconds 6] [--rounds 2] [INTERPRETER ...]

A program for each CPU calls `sorted`, which calls Python, and so on, 21 Python frames deep; all of the machine is
recorded at 5 kHz. Native frames are those that gdb finds, without inlined ones. As root. None of the peers of the bench
but perf runs in the kernel, and that copies stacks there, and unwinds them afterwards (`benchmarks.machine`).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from interpreters import Interpreter, all_interpreters
from native_stacks import gdb_stack

from benchmarks.kernel_time import TICKS, count_in_kernel, kernel_time

PROGRAM = """
def leaf():
    n = 0
    for i in range(2000):
        n += i
def down(depth):
    return leaf() if depth == 0 else sorted([0], key=lambda _: down(depth - 1))
while True:
    down(9)
"""
_RATE_HZ = 5000
_START = 4.0  # seconds, in which the programs and their code are found


def _measure(interpreter: Interpreter, seconds: float, folder: Path) -> str:
    """One recording, told in words."""
    with ExitStack() as opened:
        for _ in range(os.cpu_count() or 1):
            program = opened.enter_context(subprocess.Popen([*interpreter.command, "-c", PROGRAM]))
            opened.callback(program.kill)
        output = str(folder / "x.weft")
        command = [sys.executable, "-m", "weft", "record", "-a", "-r", str(_RATE_HZ), "-f", "weft", "-o", output]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as weft:
            time.sleep(_START)
            before = kernel_time(weft.pid, TICKS)
            time.sleep(seconds)
            after = kernel_time(weft.pid, TICKS)
            weft.send_signal(signal.SIGINT)
        native = len(gdb_stack(program.pid, folder, interpreter.chroot))
    runs = after.runs - before.runs
    return f"{1e6 * (after.seconds - before.seconds) / runs:5.1f} us, {runs:,} samples, {native} native frames"


def main() -> None:
    """Measure, and print a line for each recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("interpreter", nargs="*", metavar="INTERPRETER", help="all by default")
    options = parser.parse_args()
    count_in_kernel()
    with tempfile.TemporaryDirectory() as folder:
        for interpreter in all_interpreters():
            if not options.interpreter or interpreter.name in options.interpreter:
                for _ in range(options.rounds):
                    told = _measure(interpreter, options.seconds, Path(folder))
                    print(f"{interpreter.name:18} {told}", flush=True)


if __name__ == "__main__":
    main()
