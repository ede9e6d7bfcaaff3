"""weft.open(): typed rows, and the frames of pandas and polars that they turn into."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from capture.builder import CaptureBuilder, frame

import weft
from weft.errors import CaptureError, OutputError
from weft.sample import State

MS = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two threads; main calls work, which recurses once."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1240, "other")
    for _ in range(4):
        builder.run([frame("main", 3), frame("work", 9)], 5 * MS, ticks=5)
        builder.run([frame("main", 3), frame("work", 8), frame("work", 9)], MS)
        builder.run([frame("main", 4)], 2 * MS, thread=2, state=State.GIL, ticks=2)
        builder.run([frame("sleep", 1)], 7 * MS, state=State.BLOCKED, ticks=7)
    return builder.close()


def test_rows(path: Path) -> None:
    with weft.open(path) as results:
        assert [asdict(row) for row in results.functions] == [
            {"function": name, "file": "/srv/app.py", "first_line": 1, "self_ns": own, "total_ns": total, "samples": n}
            for name, own, total, n in (
                ("work", 24 * MS, 24 * MS, 24),
                ("main", 8 * MS, 32 * MS, 8),
                ("sleep", 0, 0, 0),
            )
        ]
        assert [(row.function, row.line, row.self_ns) for row in results.lines[:2]] == [
            ("work", 9, 24 * MS),
            ("main", 4, 8 * MS),
        ]
        assert [(row.tid, row.name, row.running_ns, row.gil_ns, row.blocked_ns) for row in results.threads] == [
            (1234, "MainThread", 24 * MS, 0, 28 * MS),
            (1240, "other", 0, 8 * MS, 0),
        ]
        assert [(row.tid, row.state, len(row.frames), row.weight_ns) for row in results.stacks] == [
            (1234, "running", 2, 20 * MS),
            (1240, "gil", 1, 8 * MS),
            (1234, "running", 3, 4 * MS),
        ]
        assert results.stacks[0].frames == ("main (app.py:3)", "work (app.py:9)")
        assert (results.weight_ns, results.samples, results.account.complete) == (32 * MS, 32, True)
    with weft.open(str(path), idle=True) as results:
        assert results.weight_ns == 60 * MS


def test_frames_of_pandas_and_polars(path: Path) -> None:
    """As many rows and columns, of the right types; sums are those of the rows."""
    with weft.open(path) as results:
        for table in (results.functions, results.lines, results.threads, results.stacks):
            names = [*asdict(table[0])]
            pandas, polars = table.to_pandas(), table.to_polars()
            assert [*pandas.columns] == names == polars.columns
            assert len(pandas) == len(polars) == len(table)
        totals = results.functions.to_pandas().groupby("file")["self_ns"].sum()
        assert totals["/srv/app.py"] == 32 * MS
        assert results.functions.to_polars()["self_ns"].sum() == 32 * MS
        assert str(results.functions.to_pandas()["self_ns"].dtype) == "int64"


def test_where_they_are_not_installed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with weft.open(path) as results:
        for name in ("pandas", "polars"):
            monkeypatch.setitem(sys.modules, name, None)
            with pytest.raises(weft.WeftError, match=f"pip install {name}"):
                getattr(results.functions, f"to_{name}")()


def test_an_empty_recording(tmp_path: Path) -> None:
    with weft.open(CaptureBuilder(tmp_path / "x.weft").close()) as results:
        assert len(results.functions) == 0
        assert [*results.functions.to_pandas().columns][:2] == ["function", "file"]
        assert results.functions.to_polars().height == 0


def test_another_form(path: Path, tmp_path: Path) -> None:
    with weft.open(path) as results:
        results.write(tmp_path / "x.folded")
        results.write(tmp_path / "odd", "speedscope")
        with pytest.raises(OutputError, match="only recording"):
            results.write(tmp_path / "y.weft")
    with weft.open(tmp_path / "x.folded") as again:
        assert {row.function: row.samples for row in again.functions} == {"work": 24, "main": 8}


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.weft").write_text("no capture")
    for name in ("x.weft", "nowhere.weft"):
        with pytest.raises(CaptureError):
            weft.open(tmp_path / name)
