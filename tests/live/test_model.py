"""The live view's tables, beside what `weft report --json` says of the same capture."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from capture.builder import SECOND, START_NS, CaptureBuilder, allocations, frame, native_frame
from live.made import MS, woven_capture

from weft.capture import Capture, Thread
from weft.live.follow import Follower
from weft.live.model import WINDOW_NS, Model, Pane, Settings
from weft.live.stacks import PYTHON
from weft.live.waits import WaitRow
from weft.profile.names import NO_FRAME
from weft.profile.tables import View
from weft.report.data import as_dict
from weft.sample import State

WHOLE = Settings(since_start=True)


def fed(path: Path, settings: Settings = WHOLE) -> Model:
    follower = Follower(path)
    news = follower.look(WINDOW_NS)
    model = Model(settings, mode=str(news.meta["mode"]))
    model.feed(news)
    waits, are_estimated = follower.gil_waits(WINDOW_NS)
    model.waits.take(waits, are_estimated=are_estimated)
    return model


def costs(model: Model) -> dict[tuple[str, str, int], tuple[int, int, int]]:
    return {
        row.key: (row.cost.self_ns, row.cost.total_ns, row.cost.ticks) for row in model.rows() if row.key[0] != NO_FRAME
    }


def reported(path: Path, table: str = "functions", unit: str = "ns", **view: bool) -> dict[Any, tuple[int, int, int]]:
    with Capture(path) as capture:
        rows = as_dict(capture, View(**view))[table]
    line = "line" if table == "lines" else "first_line"
    return {
        (row["function"], row["file"], row[line]): (row[f"self_{unit}"], row[f"total_{unit}"], row["ticks"])
        for row in rows
        if row[f"total_{unit}"]
    }


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("all_frames", [False, True])
@pytest.mark.parametrize("table", ["functions", "lines"])
def test_tables_are_those_of_the_report(tmp_path: Path, table: str, *, idle: bool, all_frames: bool) -> None:
    """GIVEN woven stacks, recursion, inlined and hidden frames, threads that stand still THEN all costs are equal."""
    path = woven_capture(tmp_path / "x.weft")
    pane = Pane.LINES if table == "lines" else Pane.FUNCTIONS
    model = fed(path, Settings(pane=pane, since_start=True, idle=idle, all_frames=all_frames))
    assert costs(model) == reported(path, table, idle=idle, all_frames=all_frames) != {}


def test_allocations_are_those_of_the_report(tmp_path: Path) -> None:
    path = allocations(tmp_path / "x.weft")
    assert costs(fed(path)) == reported(path, unit="bytes") != {}


def test_what_is_read_while_it_grows_is_what_is_there_in_the_end(tmp_path: Path) -> None:
    """GIVEN a capture that is looked at between its batches THEN the sums are those of one that is read at once."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1235, "other")
    builder.commit()
    follower = Follower(builder.writer.path)
    model = Model(WHOLE, mode="wall")
    chance = random.Random(1)
    for turn in range(30):
        for thread in (1, 2):
            for _ in range(chance.randrange(20)):
                depth = chance.randrange(1, 6)
                stack = [frame(f"f{chance.randrange(turn + 1)}", chance.randrange(9)) for _ in range(depth)]
                state = chance.choice(list(State))
                builder.run(stack, chance.randrange(1, 900) * 1000_000, thread=thread, state=state)
        builder.writer.set_standing(2, builder.stack([frame("waits")]), State.RUNNABLE, builder.clocks.get(2, START_NS))
        builder.commit()
        model.feed(follower.look(WINDOW_NS))
    assert costs(model) == reported(builder.close()) != {}
    assert not model.ended
    model.feed(follower.look(WINDOW_NS))
    assert model.ended
    assert costs(model) == reported(builder.writer.path)


def test_the_window_holds_the_last_seconds_alone(tmp_path: Path) -> None:
    """GIVEN a function that ran long ago, and a thread that was blocked all the time THEN they count as they should."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1235, "blocked")
    follower = Follower(builder.writer.path)
    model = Model(Settings(idle=True), mode="wall")
    for second in range(30):
        builder.run([frame("early" if second < 15 else "late")], SECOND)
        if second == 24:
            builder.run([frame("waits")], 25 * SECOND, thread=2, state=State.LOCK)
        builder.commit()
        model.feed(follower.look(WINDOW_NS))
    now = costs(model)
    assert ("early", "/srv/app.py", 1) not in now
    assert now["late", "/srv/app.py", 1] == (10 * SECOND, 10 * SECOND, 10)
    assert now["waits", "/srv/app.py", 1][0] == 5 * SECOND  # of the 25 s, those that lie in the window
    assert model.span_ns == WINDOW_NS
    model.change(since_start=True)
    assert costs(model) == reported(builder.close(), idle=True)


def test_after_a_reset_all_counts_from_then_on(tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1235, "blocked")
    follower = Follower(builder.writer.path)
    model = Model(Settings(since_start=True, idle=True), mode="wall")
    builder.run([frame("early")], SECOND)
    builder.commit()
    model.feed(follower.look(WINDOW_NS))
    model.reset()
    assert model.rows() == []
    builder.run([frame("late")], 3 * SECOND)
    builder.run([frame("waits")], 4 * SECOND, thread=2, state=State.LOCK)
    builder.commit()
    model.feed(follower.look(WINDOW_NS, model.reset_ns))
    for since_start in (True, False):
        model.change(since_start=since_start)
        assert costs(model) == {
            ("late", "/srv/app.py", 1): (3 * SECOND, 3 * SECOND, 1),
            ("waits", "/srv/app.py", 1): (3 * SECOND, 3 * SECOND, 1),
        }
    assert {row.thread.name: row.times[State.LOCK] for row in model.thread_rows()}["blocked"] == 3 * SECOND


def test_native_frames_can_be_left_out(tmp_path: Path) -> None:
    model = fed(woven_capture(tmp_path / "x.weft"))
    before = model.whole_ns
    model.change(native=False)
    assert {row.frame.kind for row in model.rows()} <= set(PYTHON)
    assert model.whole_ns == before


def test_one_thread_can_be_looked_at(tmp_path: Path) -> None:
    path = woven_capture(tmp_path / "x.weft")
    model = fed(path)
    whole = model.whole_ns
    parts = []
    for thread in model.threads:
        model.change(thread=thread)
        parts.append(model.whole_ns)
    assert sum(parts) == whole
    assert [part > 0 for part in parts] == [True, True, True, False]  # the last was blocked


def test_names_that_come_later_take_the_place_of_addresses(tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.writer.add_module(1, "/srv/lib.so", None)
    builder.writer.add_native_frame(77, 1, 0x1234, native_frame("x").flags)
    builder.writer.add_stacks([(50, 0, 77)])
    builder.run([frame("main")])
    builder.writer.set_standing(1, 50, State.RUNNING, START_NS)
    builder.commit()
    follower = Follower(builder.writer.path)
    news = follower.look(WINDOW_NS)
    assert [(place.frame, place.module, place.address) for place in news.nameless] == [(77, 1, 0x1234)]
    assert news.modules == {1: ("/srv/lib.so", None)}
    model = Model(WHOLE, mode="wall")
    model.feed(news)
    assert ("0x1234", "/srv/lib.so", 0) in costs(model)
    model.rename([(77, (native_frame("compute"),))], follower.stacks())
    assert ("compute", "lib.so", 0) in costs(model)
    assert ("0x1234", "/srv/lib.so", 0) not in costs(model)


@pytest.mark.parametrize("inverted", [False, True])
def test_the_flame_graph_has_all_costs(tmp_path: Path, *, inverted: bool) -> None:
    """Each node of the tree costs what its children do, and what it costs itself."""
    model = fed(woven_capture(tmp_path / "x.weft"), Settings(pane=Pane.FLAME, since_start=True, inverted=inverted))
    flame, ledger = model.flame()
    below = [0] * len(flame.tree)
    for node in range(1, len(flame.tree)):
        below[flame.tree.parent[node]] += ledger.total_ns[node]
    assert ledger.total_ns[0] == model.whole_ns > 0
    assert all(ledger.self_ns[node] + below[node] == ledger.total_ns[node] for node in range(len(flame.tree)))
    roots = {
        flame.samples[flame.tree.frame[node]].function
        for node in range(1, len(flame.tree))
        if not flame.tree.parent[node]
    }
    assert ("main" in roots) is not inverted


def test_who_made_whom_wait_is_told_as_in_the_report(tmp_path: Path) -> None:
    path = woven_capture(tmp_path / "x.weft")
    with Capture(path) as capture:
        expected = as_dict(capture, View())["gil_waits"]
    rows = fed(path).wait_rows()
    assert [
        (
            row.waiter and row.waiter.id,
            row.waiter_frame and row.waiter_frame.function,
            row.holder and row.holder.id,
            row.weight_ns,
        )
        for row in rows
    ] == [
        (
            each["waiter"],
            each["waiter_function"] and each["waiter_function"]["function"],
            each["holder"],
            each["weight_ns"],
        )
        for each in expected
    ]
    assert rows


def as_words(row: WaitRow) -> tuple[str | None, ...]:
    """Names of both threads and functions."""
    return tuple(
        of and (of.name if isinstance(of, Thread) else of.function)
        for of in (row.waiter, row.waiter_frame, row.holder, row.holder_frame)
    )


def test_who_held_it_is_estimated_where_nobody_told(tmp_path: Path) -> None:
    """GIVEN an ordinary user's capture, which knows who waits and who runs THEN it is estimated who held the GIL.

    Hard, because a thread of another process runs more than the holder does, the holder's stack changes, and it is
    preempted for a while.
    """
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1235, "waits")
    builder.add_process(2, 9000, ["python3", "other.py"])
    builder.add_thread(3, 2, 9000, "other")
    builder.run([frame("parse")], 200 * MS)
    builder.run([frame("rank")], 100 * MS, state=State.RUNNABLE)
    builder.run([frame("rest")], 100 * MS, state=State.LOCK)
    builder.run([frame("serve")], 350 * MS, state=State.GIL, thread=2)
    builder.run([frame("burn")], 400 * MS, thread=3)
    model = fed(builder.close())
    assert model.waits.is_estimated
    assert [(*as_words(row), row.weight_ns) for row in model.wait_rows()] == [
        ("waits", "serve", "MainThread", "parse", 200 * MS),
        ("waits", "serve", "MainThread", "rank", 100 * MS),
        ("waits", "serve", None, None, 50 * MS),
    ]
    assert all(row.made_wait_ns == 0 for row in model.thread_rows()), "what is estimated is not added to what was told"


def test_who_holds_it_is_what_mode_gil_sampled(tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft", {"mode": "gil"})
    builder.add_thread(2, 1, 1235, "other")
    builder.run([frame("parse")], 30 * MS)
    builder.run([frame("rank")], 50 * MS, thread=2)
    builder.run([frame("parse")], 40 * MS)
    model = fed(builder.close())
    assert model.waits.is_sampled
    assert [(*as_words(row), row.weight_ns) for row in model.wait_rows()] == [
        (None, None, "MainThread", "parse", 70 * MS),
        (None, None, "other", "rank", 50 * MS),
    ]
