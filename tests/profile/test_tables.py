"""The profile: equal frames are one frame, equal stacks one stack, and no time is lost between file and table."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from capture.builder import SECOND, START_NS, CaptureBuilder, frame

from weft.capture import Capture
from weft.profile.tables import Profile, View
from weft.profile.transform import (
    ELIDED,
    Paths,
    by_function,
    by_line,
    by_state,
    costs,
    fold,
    paths_within,
    walk,
)
from weft.sample import Frame, State


def load(path: Path, *, idle: bool = False) -> Profile:
    with Capture(path) as capture:
        return Profile.from_capture(capture, View(idle=idle))


def test_active_time_and_idle_time(tmp_path: Path) -> None:
    """A thread that ran, waited for the GIL, was blocked, and stands still since."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame("f")], 3_000_000, ticks=3)
    builder.run([frame("f")], 2_000_000, state=State.GIL, ticks=2)
    builder.run([frame("f")], 5_000_000, state=State.BLOCKED, ticks=5)
    builder.writer.set_standing(1, builder.stack([frame("g")]), State.BLOCKED, START_NS + 10_000_000)
    builder.commit(START_NS + SECOND)
    builder.writer.close()
    active, everything = load(tmp_path / "x.weft"), load(tmp_path / "x.weft", idle=True)
    assert (active.weight_ns, active.ticks) == (5_000_000, 5)
    assert (everything.weight_ns, everything.ticks) == (SECOND, 10 + 990)
    assert everything.active().totals == active.totals
    times = {State.RUNNING: 3_000_000, State.GIL: 2_000_000, State.BLOCKED: 995_000_000}
    assert by_state(everything) == {1: dict.fromkeys(State, 0) | times}
    assert everything.duration_ns == SECOND


def test_what_was_interned_twice_is_one(tmp_path: Path) -> None:
    """The recorder forgets what it has interned, to stay small, and gives the same frame and stack new ids."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame("a"), frame("b")])
    builder.writer.add_frame(50, frame("a"))
    builder.writer.add_frame(51, frame("b"))
    builder.writer.add_stacks([(60, 0, 50), (61, 60, 51)])
    builder.stacks[0, 50], builder.frames[frame("a")] = 60, 50
    builder.stacks[60, 51], builder.frames[frame("b")] = 61, 51
    builder.run([frame("a"), frame("b")])
    profile = load(builder.close())
    assert len(profile.frames) == 2
    assert len(profile.stacks) == 3
    assert [(total.weight_ns, total.ticks) for total in profile.totals] == [(2_000_000, 2)]


def random_profile(path: Path) -> tuple[Profile, list[tuple[list[Frame], int]]]:
    """Stacks with much recursion, and the runs that made them."""
    rng = random.Random(7)
    builder = CaptureBuilder(path)
    runs = []
    for _ in range(400):
        stack = [frame(rng.choice("abcd"), rng.randrange(3), first_line=0) for _ in range(rng.randrange(0, 9))]
        weight = rng.randrange(1, 1000) * 1000
        runs.append((stack, weight))
        builder.run(stack, weight)
    return load(builder.close()), runs


@pytest.mark.parametrize("key", [by_function, by_line])
def test_costs_equal_those_counted_run_by_run(tmp_path: Path, key: object) -> None:
    """Recursion, also indirect: the time of a stack counts once for a function that is on it many times."""
    assert callable(key)
    profile, runs = random_profile(tmp_path / "x.weft")
    self_ns: Counter[object] = Counter()
    total_ns: Counter[object] = Counter()
    for stack, weight in runs:
        if stack:
            self_ns[key(stack[-1])] += weight
        for one in {key(each) for each in stack}:
            total_ns[one] += weight
    got = costs(profile, key)
    assert {one: cost.self_ns for one, cost in got.items()} == {one: self_ns[one] for one in got}
    assert {one: cost.total_ns for one, cost in got.items()} == dict(total_ns)
    assert profile.weight_ns == sum(weight for _, weight in runs)


def test_folding_keeps_every_path(tmp_path: Path) -> None:
    profile, _ = random_profile(tmp_path / "x.weft")
    folded = fold(profile, by_function)
    for node in range(len(profile.stacks)):
        expected = [by_function(profile.frames[index]) for index in profile.stacks.path(node)]
        assert [folded.keys[index] for index in folded.stacks.path(folded.nodes[node])] == expected
    assert len({tuple(folded.stacks.path(node)) for node in range(len(folded.stacks))}) == len(folded.stacks)


def test_walking_goes_in_and_out_of_each_node_once(tmp_path: Path) -> None:
    profile, _ = random_profile(tmp_path / "x.weft")
    path: list[int] = [0]
    visited = []
    for node, entered in walk(profile.stacks):
        if entered:
            assert profile.stacks.parent[node] == path[-1]
            path.append(node)
            visited.append(node)
        else:
            assert path.pop() == node
    assert path == [0]
    assert sorted(visited) == list(range(1, len(profile.stacks)))


def test_stacks_100_000_frames_deep(tmp_path: Path) -> None:
    """Deeper than any recursion in Python could follow; and too deep to be shown whole a thousand times."""
    deep = 100_000
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame("main"), *[frame("recurse", 2)] * (deep - 2), frame("leaf", 3)])
    profile = load(builder.close())
    assert [cost.total_ns for cost in costs(profile, by_function).values()] == [1_000_000] * 3
    leaf = profile.totals[0].stack
    whole = paths_within(profile.stacks, [leaf], deep, 9)(leaf)
    assert len(whole) == deep
    elided = paths_within(profile.stacks, [leaf], deep - 1, 9)(leaf)
    assert elided == [*whole[:4], ELIDED, *whole[-4:]]


@pytest.mark.parametrize("longest", [3, 4, 5, 8])
def test_elided_paths_are_as_long_as_said(tmp_path: Path, longest: int) -> None:
    """On either side of the limit: a path that fits is whole, a longer one keeps both of its ends."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame(f"f{i}") for i in range(10)])
    stacks = load(builder.close()).stacks
    paths = Paths(stacks, longest)
    for node in range(len(stacks)):
        whole, path = stacks.path(node), paths(node)
        if len(whole) <= longest:
            assert path == whole
        else:
            assert len(path) == longest
            gap = path.index(ELIDED)
            assert path[:gap] == whole[:gap]
            assert path[gap + 1 :] == whole[len(whole) - (longest - gap - 1) :]
