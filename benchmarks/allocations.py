"""What recording in mode alloc costs a program each time that it asks libc for memory, and each time that it does not.

    python -m benchmarks.allocations [--rounds 3]

Each round measures one program alone, and recorded: `bytearray(600)` asks libc once, `bytes(100)` is had from an
arena of Python's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from weft import Mode, Options, record_process
from weft.session import Progress

PROGRAM = """
import sys, time
def of_libc(times):
    for _ in times: bytearray(600)
def of_python(times):
    for _ in times: bytes(100)
while sys.stdin.readline():
    took = []
    for function in (of_libc, of_python):
        start = time.perf_counter_ns()
        function(range(300_000))
        took.append((time.perf_counter_ns() - start) / 300_000)
    print(*took, flush=True)
"""
_KINDS = ("bytearray(600)", "bytes(100)")


def _ask(program: subprocess.Popen[str]) -> list[float]:
    """Nanoseconds that one of each took."""
    assert program.stdin is not None
    assert program.stdout is not None
    print(file=program.stdin, flush=True)
    return [float(word) for word in program.stdout.readline().split()]


def _ask_recorded(program: subprocess.Popen[str], output: Path) -> list[float]:
    answers: list[list[float]] = []

    def once(_: Progress) -> None:
        if not answers:
            answers.append(_ask(program))

    record_process(program.pid, output, Options(duration_s=0.5, mode=Mode.ALLOC), once)
    return answers[0]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    alone, recorded = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            pipe = subprocess.PIPE
            with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, text=True) as program:
                alone.append(_ask(program))
                recorded.append(_ask_recorded(program, Path(folder) / "x.weft"))
    for number, kind in enumerate(_KINDS):
        before, after = (median(times[number] for times in measured) for measured in (alone, recorded))
        print(f"{kind:<16}{before:8.0f} ns alone{after:8.0f} ns recorded{after - before:8.0f} ns more")


if __name__ == "__main__":
    main()
