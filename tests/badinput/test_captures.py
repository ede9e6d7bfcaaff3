"""Captures that are none, damaged or of another time, as a user meets them: `weft report` tells it in one line.

tests/capture has the reader itself; this is about what reaches the terminal.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from weft_command import assert_one_line, run_weft

from weft import Capture, Profile, WeftError
from weft.profile.tables import View

BUSY = "import time\nwhile time.process_time() < 1: sorted(map(str, range(100)))"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real one."""
    path = tmp_path_factory.mktemp("captures") / "x.weft"
    run = run_weft("record", "-r", "500", "-o", path, "--", sys.executable, "-c", BUSY)
    assert run.returncode == 0, run.stderr
    return path


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"hello\n", b"SQLite format 3\0", b"SQLite format 3\0" + bytes(100), b"\x7fELF" + bytes(5000)],
)
def test_no_capture(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.weft"
    path.write_bytes(content)
    assert "x.weft" in assert_one_line(run_weft("report", path))
    assert path.read_bytes() == content


def test_not_a_file(tmp_path: Path) -> None:
    assert_one_line(run_weft("report", tmp_path / "nowhere.weft"))
    assert_one_line(run_weft("report", tmp_path))
    assert_one_line(run_weft("report", "/dev/null"))


def test_another_database(tmp_path: Path) -> None:
    path = tmp_path / "x.weft"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE stack (id INTEGER)")
    assert_one_line(run_weft("report", path))


@pytest.mark.parametrize("version", [0, 1, 1000])
def test_another_version(version: int, capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.weft"
    path.write_bytes(capture.read_bytes())
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {version}")
    assert "version" in assert_one_line(run_weft("report", path))


def test_cut_off(capture: Path, tmp_path: Path) -> None:
    """GIVEN a capture that was copied in part THEN it is not shown as a shorter one."""
    whole = capture.read_bytes()
    for part in (1, 100, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        path = tmp_path / f"{part}.weft"
        path.write_bytes(whole[:part])
        assert_one_line(run_weft("report", path))


def weights(path: Path) -> tuple[int, int]:
    """All that a capture stands for: time in ns, and samples."""
    with Capture(path) as capture:
        profile = Profile.from_capture(capture, View(idle=True))
    return sum(total.weight_ns for total in profile.totals), sum(total.ticks for total in profile.totals)


def test_flipped_bits(capture: Path, tmp_path: Path) -> None:
    """GIVEN a capture with one bit flipped, anywhere THEN all samples are there, or an error says that they are not."""
    whole = capture.read_bytes()
    expected = weights(capture)
    path = tmp_path / "x.weft"
    places = random.Random(1).sample(range(len(whole) * 8), 400)
    refused = []
    for place in places:
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            assert weights(path) == expected, f"bit {place}"
        except WeftError:
            refused.append(place)
    assert len(refused) > 10
    for place in refused[:3]:
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        assert_one_line(run_weft("report", path))


def test_a_pipe_that_is_closed(capture: Path) -> None:
    """GIVEN `weft report x | head -1` THEN weft ends without a word when nobody reads on."""
    command = f"{sys.executable} -m weft report --json {capture} | head -c 1"
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("{", "")


@pytest.mark.parametrize("arguments", [["report"], ["report", "--json"], ["report", "-f", "pprof"], ["diff"]])
def test_a_full_disk(capture: Path, arguments: list[str]) -> None:
    """GIVEN output that goes to a file on a disk that is full THEN a line says so, and the exit status is 1."""
    captures = [capture] * (2 if arguments == ["diff"] else 1)
    with Path("/dev/full").open("wb") as full:
        run = run_weft(*arguments, *captures, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (run.returncode, run.stderr) == (1, "weft: cannot write to standard output: No space left on device\n")


def test_json_of_a_good_one(capture: Path) -> None:
    """Else none of the above could fail."""
    run = run_weft("report", "--json", capture)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["account"]["samples_taken"] > 20
