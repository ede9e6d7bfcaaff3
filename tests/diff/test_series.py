"""Time by blocks, files that are the same, and trees made one: what a difference is computed from."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from capture.builder import SECOND, START_NS, CaptureBuilder, frame

from weft.capture import Capture
from weft.profile.matching import same_files
from weft.profile.merged import merge
from weft.profile.series import BLOCKS, Series, by_name, series_of
from weft.profile.tables import Profile, View
from weft.profile.transform import costs
from weft.sample import State

MS = 1_000_000


def load(path: Path, *, idle: bool = False) -> tuple[Profile, Series]:
    with Capture(path) as capture:
        profile = Profile.from_capture(capture, View(idle=idle))
        return profile, series_of(capture, profile)


def test_blocks_add_up_to_the_profile(tmp_path: Path) -> None:
    """Stacks with recursion, two threads, runs of all lengths and one that has not ended: no time is lost or told
    twice.
    """
    rng = random.Random(3)
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1240, "other")
    for _ in range(500):
        stack = [frame(rng.choice("abcd"), rng.randrange(5)) for _ in range(rng.randrange(7))]
        state = rng.choice([State.RUNNING, State.GIL, State.BLOCKED])
        builder.run(stack, rng.randrange(1, 40 * MS) // 1000 * 1000, thread=rng.choice([1, 2]), state=state)
    builder.commit(START_NS + 20 * SECOND)
    builder.writer.set_standing(1, builder.stack([frame("a"), frame("e")]), State.BLOCKED, START_NS + 12 * SECOND)
    builder.commit(START_NS + 20 * SECOND)
    builder.writer.close()
    for idle in (False, True):
        profile, series = load(tmp_path / "x.weft", idle=idle)
        whole = costs(profile, by_name)
        assert {name: sum(times) for name, times in series.own.items()} == {
            name: cost.self_ns for name, cost in whole.items() if cost.self_ns
        }
        assert {name: sum(times) for name, times in series.total.items()} == {
            name: cost.total_ns for name, cost in whole.items() if cost.total_ns
        }
        assert sum(series.whole) == profile.weight_ns
        assert len(series.whole) == BLOCKS


def test_time_counts_where_it_was(tmp_path: Path) -> None:
    """A second of f, a run of g that lasts for half a block on either side of an edge, and f again."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    for _ in range(975):
        builder.run([frame("f")], MS)
    builder.run([frame("g")], 50 * MS)
    for _ in range(975):
        builder.run([frame("f")], MS)
    _, series = load(builder.close())
    middle = BLOCKS // 2
    assert series.whole == [100 * MS] * BLOCKS
    times = series.own[by_name(frame("g"))]
    assert {block: time for block, time in enumerate(times) if time} == {middle - 1: 25 * MS, middle: 25 * MS}


def test_samples_that_weigh_differently_count_for_fewer(tmp_path: Path) -> None:
    """Kish: (sum of weights)² / sum of squares."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame("f")], 30 * MS, ticks=3)
    builder.run([frame("g")], 90 * MS, ticks=1)
    _, series = load(builder.close())
    assert series.samples == pytest.approx(120**2 / (3 * 10**2 + 90**2))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["/a/x.py", "/b/x.py"], ["/b/x.py", "/c/x.py"], {"/b/x.py": "/b/x.py", "/c/x.py": "/a/x.py"}),
        (["/old/p/x", "/old/q/x"], ["/new/q/x", "/new/p/x"], {"/new/q/x": "/old/q/x", "/new/p/x": "/old/p/x"}),
        (["/a/x.py", "/b/x.py"], ["/c/x.py"], {}),  # it could be either
        (["/a/x.py"], ["/c/x.py", "/d/x.py"], {}),
        (["", "<string>"], ["", "<string>", "y.py"], {"": "", "<string>": "<string>"}),
    ],
)  # fmt: skip
def test_same_files(before: list[str], after: list[str], expected: dict[str, str]) -> None:
    assert same_files(before, after) == expected


def test_merged_trees_have_each_side_whole(tmp_path: Path) -> None:
    """Every stack by function, with the time of either side, also of stacks that only one of them has."""
    rng = random.Random(5)
    sums: list[Counter[tuple[str, ...]]] = [Counter(), Counter()]
    profiles = []
    for side in (0, 1):
        builder = CaptureBuilder(tmp_path / f"{side}.weft")
        for _ in range(200):
            names = tuple(rng.choice("abc" if side else "bcd") for _ in range(rng.randrange(5)))
            builder.run([frame(name, rng.randrange(9), f"/{side}/app.py") for name in names])
            sums[side][names] += MS
        profiles.append(load(builder.close())[0])
    merged = merge([profiles[0]], [profiles[1]])
    for side in (0, 1):
        got = {
            tuple(merged.functions[number][0] for number in merged.stacks.path(node)): weight
            for node, weight in enumerate(merged.weight_ns[side])
            if weight
        }
        assert got == dict(sums[side])
        assert sum(merged.ticks[side]) == 200
