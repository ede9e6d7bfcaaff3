"""Collapsed stacks: one line a stack, whatever the names hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from capture.builder import CaptureBuilder, allocations, frame

from weft.capture import Capture
from weft.export import collapsed
from weft.profile.tables import View
from weft.sample import Frame, FrameKind, State


def lines(path: Path, *, idle: bool = False) -> list[str]:
    with Capture(path) as capture:
        return b"".join(collapsed.render(capture, View(idle=idle))).decode().splitlines()


def test_root_first_and_counted_in_samples(tmp_path: Path) -> None:
    """Two threads and two states with the same stack are one line; a run of three ticks counts three."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1240, "other")
    builder.run([frame("main", 3), frame("work", 9)], ticks=3)
    builder.run([frame("main", 3), frame("work", 9)], thread=2, state=State.GIL)
    builder.run([frame("main", 4)])
    builder.run([frame("sleep", 4)], state=State.BLOCKED)
    builder.run([])
    path = builder.close()
    active = ["main (app.py:3);work (app.py:9) 4", "main (app.py:4) 1", "[no Python frame] 1"]
    assert sorted(lines(path)) == sorted(active)
    assert sorted(lines(path, idle=True)) == sorted([*active, "sleep (app.py:4) 1"])


def test_allocations_count_in_bytes(tmp_path: Path) -> None:
    """Of mode alloc, without libc's own functions."""
    assert sorted(lines(allocations(tmp_path / "x.weft"))) == [
        "main (app.py:3);make_array (lib.so) 1073742000",
        "main (app.py:3);parse (app.py:9);make_array (lib.so) 3221225000",
    ]


def test_names_cannot_break_a_line_or_add_a_frame(tmp_path: Path) -> None:
    """Names with the separators of the format: exec() and compile() make any name and any file."""
    nasty = ["a;b", "new\nline", "tab\tbed", "spa ce 5", "\x1b[31m", "sep\u2028x", "größe", ""]
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame(name, 1, f"/srv/{name}.py") for name in nasty])
    (line,) = lines(builder.close())
    stack, count = line.rsplit(" ", 1)
    assert count == "1"
    assert len(stack.split(";")) == len(nasty)
    assert line.isprintable()
    assert stack.startswith(r"a\x3bb (a\x3bb.py:1);new\x0aline (")


def test_frames_that_differ_in_columns_only_are_one(tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    for column in (1, 5, 9):
        builder.run([Frame(FrameKind.PYTHON, "f", "f.py", 3, 1, 3, column, column + 2), frame("g")])
    assert lines(builder.close()) == ["f (f.py:3);g (app.py:1) 3"]


def test_several_processes_have_a_frame_each(tmp_path: Path) -> None:
    """Only where there is time in more than one."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_process(2, 1300, ["python3", "-m", "worker;1"], 1)
    builder.add_thread(2, 2, 1300, "MainThread")
    builder.run([frame("f")])
    builder.commit()
    assert lines(tmp_path / "x.weft") == ["f (app.py:1) 1"]
    builder.run([frame("f")], thread=2)
    assert sorted(lines(builder.close())) == [
        r"process app.py 1234;f (app.py:1) 1",
        r"process worker\x3b1 1300;f (app.py:1) 1",
    ]


def test_every_sample_is_in_it(tmp_path: Path) -> None:
    """Random stacks against a count made on the way in."""
    import random

    rng = random.Random(5)
    builder = CaptureBuilder(tmp_path / "x.weft")
    expected: Counter[str] = Counter()
    for _ in range(1_000):
        names = [rng.choice("abc") for _ in range(rng.randrange(1, 6))]
        builder.run([frame(name) for name in names])
        expected[";".join(f"{name} (app.py:1)" for name in names)] += 1
    got = dict(line.rsplit(" ", 1) for line in lines(builder.close()))
    assert got == {stack: str(count) for stack, count in expected.items()}


def test_stacks_too_deep_to_write_out_are_elided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recursion sampled at each of many depths would make a file of a square size."""
    monkeypatch.setattr(collapsed, "MOST_FRAMES", 5_000)
    builder = CaptureBuilder(tmp_path / "x.weft")
    for depth in range(1_100, 1_110):
        builder.run([frame("main"), *[frame("recurse", 2)] * depth])
    got = lines(builder.close())
    assert sum(int(line.rsplit(" ", 1)[1]) for line in got) == 10
    for line in got:
        frames = line.split(";")
        assert len(frames) == collapsed.LONGEST
        assert frames.count("[frames left out]") == 1
        assert frames[0] == "main (app.py:1)"
