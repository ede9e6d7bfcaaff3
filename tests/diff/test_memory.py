"""Differences of recordings of mode alloc: made-up ones, sampled by chance as the kernel does it, and real ones."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from subprocess import PIPE

import pytest
from capture.builder import CaptureBuilder, frame
from weft_command import assert_one_line, run_weft

from weft import Mode, Options, record_process
from weft.compare import compare_recordings
from weft.profile.difference import Normalise
from weft.session import Progress

MEAN = 512 << 10  # bytes from sample to sample
ALLOC: dict[str, str | int] = {"mode": "alloc", "bytes_a_sample": MEAN, "collector": "bpf"}
PAIRS = 60
MOST_ALARMS = 9  # with a true rate of 5 %, more only once in some thousand draws; and these are the same in each run
# What functions ask for: how often, and how many bytes each time.
PROGRAM = ((400_000, 100), (30_000, 2000), (4000, 20_000), (600, 200_000), (40, 3_000_000), (5, 40_000_000))

PARSED, RENDERED = 600_000_000, 150_000_000  # bytes
SCRIPT = f"""
import sys

def parse(size):
    for _ in range(30):
        bytearray(size // 30)

def render(size):
    for _ in range(4):
        bytearray(size // 4)

print("ready", flush=True)
input()
for _ in range(20):
    parse({PARSED} // 20)
    render({RENDERED} * int(sys.argv[1]) // 20)
"""


def sampled(rng: Random, path: Path, program: Sequence[tuple[int, int]] = PROGRAM) -> Path:
    """A capture of a program whose allocations of n bytes are met with a chance of 1 - exp(-n / MEAN), each anew."""
    builder = CaptureBuilder(path, ALLOC)
    met: list[tuple[int, int]] = []
    for number, (calls, size) in enumerate(program):
        chance = -math.expm1(-size / MEAN)
        at = math.floor(math.log(1 - rng.random()) / math.log(1 - chance)) if chance < 1 else 0
        while at < calls:  # geometric gaps between those that are met
            met.append((number, size))
            at += 1 + (math.floor(math.log(1 - rng.random()) / math.log(1 - chance)) if chance < 1 else 0)
    rng.shuffle(met)
    for number, size in met:
        times = 1 / -math.expm1(-size / MEAN)
        builder.run([frame("main"), frame(f"f{number}")], round(size * times), ticks=round(times))
    return builder.close()


def test_the_same_program_twice(tmp_path: Path) -> None:
    """GIVEN programs that ask for the same, in allocations of 100 bytes to 40 MB THEN at most one of twenty pairs has
    any alarm, though a sample of small ones stands for thousands."""
    rng = Random(1)
    for normalise in Normalise:
        alarms = 0
        for pair in range(PAIRS):
            ours, theirs = (sampled(rng, tmp_path / f"{normalise.value}-{pair}-{side}.weft") for side in "ab")
            rows = compare_recordings(ours, theirs, normalise).difference.rows
            alarms += any(row.own.is_news or row.total.is_news for row in rows)
        assert alarms <= MOST_ALARMS


def test_it_knows_how_little_a_sample_tells(tmp_path: Path) -> None:
    """GIVEN 40 MB in 400,000 calls THEN they tell as much as the 80 samples that they were met with, and not as
    400,000 would."""
    ours, theirs = (
        sampled(Random(seed), tmp_path / f"{seed}.weft", ((400_000, 100), (20, 2_000_000))) for seed in (1, 2)
    )
    difference = compare_recordings(ours, theirs, Normalise.NONE).difference
    (small,) = (row.own for row in difference.rows if row.function == "f0")
    least = 2 * math.sqrt(2 / 80) * small.before  # of 95 % certainty, were there one function and no blocks
    assert small.high - small.low > 2 * 0.9 * least


def record_from_its_begin(script: Path, factor: int, path: Path) -> None:
    """Record the program, which begins once it is recorded: what it asks for before is not seen."""
    with subprocess.Popen([sys.executable, script, str(factor)], stdin=PIPE, stdout=PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        stdin = program.stdin

        def begin(_: Progress) -> None:
            if not stdin.closed:
                stdin.write(b"\n")
                stdin.close()

        record_process(program.pid, path, Options(duration_s=60, mode=Mode.ALLOC), begin)
    assert program.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")
def test_a_function_that_asks_for_twice_as_much(tmp_path: Path) -> None:
    """GIVEN two versions of a program, in one of which a function asks for 150 MB more WHEN each was recorded five
    times THEN that is told, with an interval that holds it. A recording of time is of another kind."""
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    folders = [tmp_path / "old", tmp_path / "new"]
    for factor, folder in enumerate(folders, 1):
        folder.mkdir()
        for number in range(5):
            record_from_its_begin(script, factor, folder / f"{number}.weft")
    difference = compare_recordings(*folders, Normalise.NONE).difference
    changes = {row.function: row.total for row in difference.rows}
    assert 0 < changes["render"].low < RENDERED / difference.whole_weight < changes["render"].high
    assert not changes["parse"].is_news
    # Of five runs the mean has a standard deviation of some 5 MB; the interpreter asks for 2 of its own.
    assert difference.whole_weight == pytest.approx(PARSED + RENDERED, rel=0.05)
    run = run_weft("diff", "--normalise", "none", *folders)
    assert "All together takes more memory: " in run.stdout
    assert "More memory with all that they call" in run.stdout
    assert " MiB before, " in run.stdout
    page = run_weft("diff", "--normalise", "time", "-f", "html", *folders).stdout
    assert '"unit":"bytes","per":"/s"' in page
    time = tmp_path / "time.weft"
    assert run_weft("record", "-o", time, "--", sys.executable, "-c", "sum(range(10**8))").returncode == 0
    line = assert_one_line(run_weft("diff", time, folders[0]))
    assert f"{time} tells of time, and {folders[0]} of memory: give recordings of one kind" in line
