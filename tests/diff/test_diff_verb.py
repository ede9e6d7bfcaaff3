"""`weft diff` as a user has it: on real recordings of two versions of a program, and of one version twice."""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from capture.builder import CaptureBuilder, frame
from running import TARGETS
from weft_command import assert_one_line, run_weft

from weft.compare import compare_recordings
from weft.errors import CaptureError
from weft.profile.difference import Normalise
from weft.report.diff import collapsed, html, markdown, text
from weft.sample import State

ROUNDS = 1500
MS = 1_000_000


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, float]]]:
    """tasks.py, and again, and with one task twice as long: each capture, and the CPU seconds of its tasks.

    Both versions lie in folders of their own, as checkouts do.
    """
    folder = tmp_path_factory.mktemp("recordings")
    made = {}
    for name, factor in (("before", 1), ("again", 1), ("after", 2)):
        (folder / name).mkdir()
        script = shutil.copy(TARGETS / "tasks.py", folder / name)
        path = folder / f"{name}.weft"
        command = [sys.executable, script, ROUNDS, factor]
        run = run_weft("record", "-r", "2khz", "--mode", "cpu", "--no-native", "-o", path, "--", *command)
        assert run.returncode == 0, run.stderr
        made[name] = (path, json.loads(run.stdout))
    return made


def test_a_task_that_takes_twice_the_time(recordings: dict[str, tuple[Path, dict[str, float]]]) -> None:
    """The change of its share that the program itself measured lies in the interval, which does not reach to 0."""
    (before, ours), (after, theirs) = recordings["before"], recordings["after"]
    difference = compare_recordings(before, after, level=0.999).difference
    change = next(row.total for row in difference.rows if row.function == "render")
    assert change.low > 0
    truth = theirs["render"] / sum(theirs.values()) - ours["render"] / sum(ours.values())
    assert change.low < truth < change.high
    assert {row.function for row in difference.slower("own")} <= {"render", "render.<locals>.<listcomp>"}


def test_the_same_program_twice(recordings: dict[str, tuple[Path, dict[str, float]]]) -> None:
    """Whatever the machine did meanwhile, no share of it has changed."""
    before, again = recordings["before"][0], recordings["again"][0]
    difference = compare_recordings(before, again, level=0.9999).difference
    assert {row.function for row in difference.rows} >= {"main", "parse", "render", "store"}
    assert not [row for row in difference.rows if row.own.is_news or row.total.is_news]
    run = run_weft("diff", before, again, "--certainty", "99.99%", "--fail-above", "0%")
    assert run.returncode == 0, run.stderr
    assert "No change that is more than noise" in run.stdout


def test_in_ci(recordings: dict[str, tuple[Path, dict[str, float]]]) -> None:
    before, after = recordings["before"][0], recordings["after"][0]
    run = run_weft("diff", before, after, "--fail-above", "5%")
    assert run.returncode == 3
    assert re.search(r"^weft: render takes \+\d+\.\d %", run.stderr)
    slower, faster = run.stdout.index("Slower"), run.stdout.index("Faster")
    assert slower < run.stdout.index("render") < faster
    assert run_weft("diff", before, after, "--fail-above", "95%").returncode == 0
    assert run_weft("diff", before, after).returncode == 0


def test_collapsed(recordings: dict[str, tuple[Path, dict[str, float]]]) -> None:
    """Two counts a stack, as difffolded.pl tells them: those before scaled, so that both add up to the same."""
    before, after = recordings["before"][0], recordings["after"][0]
    run = run_weft("diff", before, after, "-f", "collapsed")
    lines = [re.fullmatch(r"(.*) (\d+) (\d+)", line) for line in run.stdout.splitlines()]
    ours, theirs = (sum(int(line[i]) for line in lines if line) for i in (2, 3))
    assert None not in lines
    assert theirs > 100
    assert ours == pytest.approx(theirs, abs=len(lines) / 2)
    assert any(line and "main (tasks.py);render (tasks.py)" in line[1] for line in lines)


Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A capture with rounds of functions by their times in ms, in the order of time."""

    def build(name: str, rounds: int = 200, folder: str = "/srv", **times_ms: float) -> Path:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        builder = CaptureBuilder(tmp_path / name)
        for i in range(rounds):
            for function, time_ms in times_ms.items():
                stack = [frame("main", file=f"{folder}/app.py"), frame(function, i % 5, f"{folder}/app.py", i % 3)]
                builder.run(stack, int(time_ms * MS), ticks=max(1, int(time_ms)))
            builder.run([frame("main"), frame("wait")], 7 * MS, state=State.BLOCKED)
        return builder.close()

    return build


def test_folders_of_runs(make: Make, tmp_path: Path) -> None:
    """Five runs each: what differs from run to run as much as from side to side is noise; what does not is news.

    Within any single run nothing varies at all, so that a pair of them would call both news.
    """
    for i in range(5):
        make(f"old/{i}.weft", noisy=4 + i % 3, steady=5)
        make(f"new/{i}.weft", noisy=5 + i % 3, steady=8)
    (tmp_path / "new" / "notes.txt").write_text("no recording")
    difference = compare_recordings(tmp_path / "old", tmp_path / "new", Normalise.NONE).difference
    assert [row.function for row in difference.slower("own")] == ["steady"]
    assert not difference.faster("own")
    one = compare_recordings(tmp_path / "old/0.weft", tmp_path / "new/0.weft", Normalise.NONE).difference
    assert {row.function for row in one.slower("own")} == {"noisy", "steady"}
    told = run_weft("diff", "--normalise", "none", tmp_path / "old", tmp_path / "new").stdout
    assert "from recording to recording" in told
    assert "From one recording" not in told
    pair = tmp_path / "old/0.weft", tmp_path / "new/0.weft"
    assert "From one recording on each side" in run_weft("diff", "--normalise", "none", *pair).stdout
    assert "From one recording on each side" not in run_weft("diff", *pair).stdout


def test_normalised(make: Make) -> None:
    """A recording three times as long, in which a second function takes as much again as all did before.

    Of 6 ms of work in rounds of 13 ms it takes 12 ms of 19.
    """
    before, after = make("a.weft", work=6), make("b.weft", rounds=600, work=6, more=6)
    expected = {
        Normalise.SAMPLES: (1.0, 0.5, 0.0, 0.5),
        Normalise.TIME: (1.0, (6 / 19) / (6 / 13), 0.0, (6 / 19) / (6 / 13)),
        Normalise.NONE: (1.0, 3.0, 0.0, 3.0),
    }
    for normalise, (work_before, work_after, more_before, more_after) in expected.items():
        rows = {row.function: row.own for row in compare_recordings(before, after, normalise).difference.rows}
        assert (rows["work"].before, rows["work"].after) == pytest.approx((work_before, work_after))
        assert (rows["more"].before, rows["more"].after) == pytest.approx((more_before, more_after))


@pytest.mark.parametrize("normalise", ["samples", "time", "none"])
def test_markdown(make: Make, normalise: str, tmp_path: Path) -> None:
    """Tables as GitHub reads them: as many cells in each row as in the head."""
    before, after = make("a.weft", parse=5, render=3), make("b.weft", parse=5, render=6)
    run = run_weft("diff", before, after, "--normalise", normalise, "-o", tmp_path / "x.md")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    text = (tmp_path / "x.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows
    assert {line.count("|") for line in rows} == {7}
    assert any("`render (app.py)`" in row and " +" in row for row in rows)


def test_blocked_threads(make: Make) -> None:
    difference = compare_recordings(make("a.weft", work=6), make("b.weft", work=6)).difference
    assert "wait" not in {row.function for row in difference.rows}
    run = run_weft("diff", "--idle", "-f", "collapsed", make("a.weft", work=6), make("b.weft", work=6))
    assert "main (app.py);wait (app.py) 200 200\n" in run.stdout


def test_a_program_that_has_moved(make: Make) -> None:
    """Another folder, other lines: the same functions."""
    before, after = make("a.weft", work=6, other=3), make("b.weft", folder="/home/new/src", work=6, other=3)
    rows = compare_recordings(before, after).difference.rows
    assert {(row.function, row.file) for row in rows} == {(name, "/srv/app.py") for name in ("main", "work", "other")}
    assert all(row.own.before == row.own.after for row in rows)


NAMES = ["a|b", "`x`", "<img src=x onerror=alert(1)>", "@everyone [x](http://a.b)", "\x1b[31m\n| x |", "x" * 5000, "‮x"]


def test_names_cannot_leave_their_cell(make: Make, tmp_path: Path) -> None:
    """Functions of a hostile program, in a pull request: each name is code, of bounded length, on one line."""
    before = make("a.weft", **dict.fromkeys(NAMES, 1), other=9)
    after = make("b.weft", **dict.fromkeys(NAMES, 2), other=9)
    run = run_weft("diff", before, after, "-f", "markdown", "--normalise", "none")
    rows = [line for line in run.stdout.splitlines() if line.startswith("|")]
    assert len(rows) > 2 + len(NAMES)
    for row in rows:
        cells = re.split(r"(?<!\\)\|", row)
        assert len(cells) == 8
        name = cells[6].strip()
        assert len(name) < 300
        assert name == "function" or name == "---" or re.fullmatch(r"(`+)(.*[^`])\1", name)
    assert "\x1b" not in run.stdout + run_weft("diff", before, after).stdout


def test_mistakes(make: Make, tmp_path: Path) -> None:
    good = make("a.weft", work=6)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.weft").write_text("no capture")
    nothing = CaptureBuilder(tmp_path / "nothing.weft").close()
    assert "without recordings" in assert_one_line(run_weft("diff", good, tmp_path / "empty"))
    assert "no samples to compare" in assert_one_line(run_weft("diff", nothing, good))
    assert_one_line(run_weft("diff", good, tmp_path / "bad.weft"))
    assert_one_line(run_weft("diff", good, tmp_path / "nowhere.weft"))
    assert "no percentage" in assert_one_line(run_weft("diff", good, good, "--fail-above", "5"), status=2)
    assert "--certainty" in assert_one_line(run_weft("diff", good, good, "--certainty", "100%"), status=2)


def test_damaged_recordings(make: Make, tmp_path: Path) -> None:
    """Bits flipped anywhere, and numbers that cannot be: a difference, or the one line that says what is wrong."""
    good = make("a.weft", work=6, other=3)
    data = good.read_bytes()
    rng = random.Random(17)
    path = tmp_path / "b.weft"
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        show(good, path)
    for key in ("start_ns", "written_ns", "rate_hz"):
        for number in ((1 << 63) - 1, 0, 1):
            path.write_bytes(data)
            with sqlite3.connect(path) as database:
                database.execute("UPDATE meta SET value = ? WHERE key = ?", (number, key))
            show(good, path)


def show(before: Path, after: Path) -> None:
    try:
        comparison = compare_recordings(before, after, Normalise.TIME)
        for module in (text, markdown, collapsed, html):
            options = {"terminal": False} if module is text else {}
            assert b"".join(module.render(comparison, **options))
    except CaptureError as error:
        assert "\n" not in str(error)
