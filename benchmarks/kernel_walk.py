"""What the kernel collector takes for one sample, on each interpreter: the time of its BPF program, by its runs.

    python -m benchmarks.kernel_walk [--seconds 6] [--rounds 1] [INTERPRETER ...]

A program for each CPU, 20 Python frames deep, each of a function of its own, of which some call the next one through
`sorted`; all of the machine is recorded at 5 kHz. Measured with as many of these calls as make some 60 native frames
(up to 3.10 without any: 20 Python frames have 28 to 72 there), and with eight. Native frames are those that gdb finds,
without inlined ones, the most of three looks: it stops the program anywhere. As root. None of the peers of the bench
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

_LEAF = """
def f0():
    n = 0
    for i in range(2000):
        n += i
"""
_PLAIN = 18  # calls of 20 frames; one by C takes the place of two
_MANY_BY_C = 8
_RATE_HZ = 5000
_START = 4.0  # seconds, in which the programs and their code are found


def _program(by_c: int) -> str:
    plain = _PLAIN - 2 * by_c
    calls = [f"def f{at}(): return f{at - 1}()" for at in range(1, plain + 1)]
    calls += [
        f"def f{at}(): return sorted([0], key=lambda _: f{at - 1}())" for at in range(plain + 1, plain + by_c + 1)
    ]
    return "\n".join([_LEAF, *calls, f"while True: f{plain + by_c}()"])


def _measure(interpreter: Interpreter, by_c: int, seconds: float, folder: Path) -> str:
    """One recording, told in words."""
    command = [*interpreter.command, "-c", _program(by_c)]
    with ExitStack() as opened:
        for _ in range(os.cpu_count() or 1):
            program = opened.enter_context(subprocess.Popen(command))
            opened.callback(program.kill)
        output = str(folder / "x.weft")
        record = [sys.executable, "-m", "weft", "record", "-a", "-r", str(_RATE_HZ), "-f", "weft", "-o", output]
        with subprocess.Popen(record, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as weft:
            time.sleep(_START)
            before = kernel_time(weft.pid, TICKS)
            time.sleep(seconds)
            after = kernel_time(weft.pid, TICKS)
            weft.send_signal(signal.SIGINT)
        native = max(len(gdb_stack(program.pid, folder, interpreter.chroot)) for _ in range(3))
    runs = after.runs - before.runs
    a_run = 1e6 * (after.seconds - before.seconds) / runs
    return f"{a_run:5.1f} us, {runs:,} samples, 20 Python frames, {by_c} of them called by C, {native} native frames"


def main() -> None:
    """Measure, and print a line for each recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("interpreter", nargs="*", metavar="INTERPRETER", help="all by default")
    options = parser.parse_args()
    count_in_kernel()
    with tempfile.TemporaryDirectory() as folder:
        for interpreter in all_interpreters():
            if not options.interpreter or interpreter.name in options.interpreter:
                some = 6 if interpreter.version >= (3, 11) else 0
                for by_c in (some, _MANY_BY_C) * options.rounds:
                    told = _measure(interpreter, by_c, options.seconds, Path(folder))
                    print(f"{interpreter.name:18} {told}", flush=True)


if __name__ == "__main__":
    main()
