"""speedscope, Chrome trace and gecko: formats that show a recording in the order of time."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from capture.builder import SECOND, START_NS, CaptureBuilder, allocations, frame
from interpreters import CACHE
from jsonschema import Draft7Validator

from weft.capture import Capture
from weft.errors import OutputError
from weft.export import chrometrace, gecko, speedscope, write
from weft.profile.tables import View
from weft.sample import Frame, FrameKind, State

MS = 1_000_000


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A thread that calls, moves on within a function, is blocked, runs again; and one that stands still."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1240, "wait\ner")
    builder.run([frame("main", 3), frame("work", 9)], 2 * MS, ticks=2)
    builder.run([frame("main", 3), frame("work", 11)], MS, gap_ns=4_000)  # the noise of a sampler, no gap
    builder.run([frame("main", 4)], MS)
    builder.run([frame("main", 5), frame("sleep", 1)], 5 * MS, state=State.BLOCKED, ticks=5)
    builder.run([frame("main", 3), frame("work", 9)], MS)
    builder.run([], MS)
    builder.commit()
    builder.writer.set_standing(2, builder.stack([frame("wait", 7)]), State.GIL, START_NS + MS)
    builder.commit(START_NS + SECOND)
    builder.writer.close()
    return tmp_path / "x.weft"


def export(module: Any, path: Path, *, idle: bool = False) -> Any:
    with Capture(path) as capture:
        data = b"".join(module.render(capture, View(idle=idle)))
    return json.loads(gzip.decompress(data) if module is gecko else data)


def check_evented(profile: dict[str, Any], frames: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    """The rules of speedscope's evented profiles: time does not go back, and what closes is what is on top. Gives the
    time of each stack.
    """
    time: Counter[tuple[str, ...]] = Counter()
    stack: list[int] = []
    last = profile["startValue"]
    for event in profile["events"]:
        assert last <= event["at"] <= profile["endValue"]
        if stack:
            time[tuple(frames[index]["name"] for index in stack)] += event["at"] - last
        last = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert event["type"] == "C"
            assert stack.pop() == event["frame"]
    assert not stack
    assert profile["type"] == "evented"
    assert profile["unit"] == "nanoseconds"
    return time


def test_speedscope(recording: Path) -> None:
    """Functions, not lines: a function that goes on to its next line is one bar. Blocked time is a gap."""
    document = export(speedscope, recording)
    frames = document["shared"]["frames"]
    main, waiter = document["profiles"]
    assert (main["name"], waiter["name"]) == ("MainThread (1234)", r"wait\x0aer (1240)")
    assert check_evented(main, frames) == {
        ("main", "work"): 4 * MS + 4_000,
        ("main",): MS,
        ("[no Python frame]",): MS,
    }
    assert check_evented(waiter, frames) == {("wait",): SECOND - MS}
    assert [event["at"] for event in main["events"] if event["type"] == "O"][:3] == [0, 0, 9_004_000]
    assert document["activeProfileIndex"] == 1
    assert {"name": "work", "file": "/srv/app.py", "line": 1} in frames
    idle = export(speedscope, recording, idle=True)
    assert check_evented(idle["profiles"][0], idle["shared"]["frames"])["main", "sleep"] == 5 * MS


def test_speedscope_by_its_schema(recording: Path, lack: Callable[[str], NoReturn]) -> None:
    """The schema that speedscope publishes with its program; and what a schema cannot say."""
    schema = CACHE / "speedscope-1.25.0/node_modules/speedscope/dist/release/file-format-schema.json"
    if not schema.exists():
        lack(f"there is no {schema}")
    validator = Draft7Validator(json.loads(schema.read_text()))
    document = export(speedscope, recording)
    assert [error.message for error in validator.iter_errors(document)] == []
    del document["profiles"][0]["endValue"]
    assert [*validator.iter_errors(document)]  # else it would find nothing wrong with anything
    document = export(speedscope, recording)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert all(isinstance(one["name"], str) for one in document["shared"]["frames"])
    for profile in document["profiles"]:
        assert {"type", "name", "unit", "startValue", "endValue", "events"} <= profile.keys()
        for event in profile["events"]:
            assert event.keys() == {"type", "frame", "at"}
            assert 0 <= event["frame"] < len(document["shared"]["frames"])


def test_chrome_trace(recording: Path) -> None:
    """Complete events that nest, with names for processes and threads, and the account beside them."""
    document = export(chrometrace, recording)
    named = {
        (event["name"], event["tid"]): event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M"
    }
    assert named == {
        ("process_name", 0): "app.py",
        ("thread_name", 1234): "MainThread (1234)",
        ("thread_name", 1240): r"wait\x0aer (1240)",
    }
    stays = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in stays] == [
        ("work", 1234, 0.0, 3004.0),
        ("main", 1234, 0.0, 4004.0),
        ("work", 1234, 9004.0, 1000.0),
        ("main", 1234, 9004.0, 1000.0),
        ("[no Python frame]", 1234, 10004.0, 1000.0),
        ("wait", 1240, 1000.0, 999000.0),
    ]
    assert stays[0]["args"] == {"file": "/srv/app.py", "line": 1}
    assert {event["pid"] for event in stays} == {1234}
    assert "samples_taken" in document["otherData"]["account"]


def test_chrome_trace_nests(tmp_path: Path) -> None:
    """By the published format, complete events of one thread nest: each begins and ends within the one that is around
    it. The time of each stack, put together again from them, is that of the recording.
    """
    rng = random.Random(8)
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1240, "other")
    expected: Counter[tuple[int, tuple[str, ...]]] = Counter()
    for _ in range(400):
        names = tuple(rng.choice("abc") for _ in range(rng.randrange(1, 6)))
        weight, thread = rng.randrange(1, 3000) * 1000, rng.choice([1, 2])
        builder.run([frame(name) for name in names], weight, thread=thread, gap_ns=rng.choice([0, 0, 0, 5 * MS]))
        expected[{1: 1234, 2: 1240}[thread], names] += weight
    document = export(chrometrace, builder.close())
    got: Counter[tuple[int, tuple[str, ...]]] = Counter()
    for tid in (1234, 1240):
        around: list[tuple[str, int, int]] = []  # name, begin and end in ns
        stays = [event for event in document["traceEvents"] if event["ph"] == "X" and event["tid"] == tid]
        stays.reverse()  # of those that begin and end at once, the outer one is written last
        for event in sorted(stays, key=lambda event: (event["ts"], -event["dur"])):
            begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
            assert 0 <= begin < end
            while around and around[-1][2] <= begin:
                around.pop()
            assert not around or end <= around[-1][2]
            if around:
                got[tid, tuple(name for name, _, _ in around)] -= end - begin
            around.append((event["name"], begin, end))
            got[tid, tuple(name for name, _, _ in around)] += end - begin
    assert {key: time for key, time in got.items() if time} == dict(expected)


def test_a_thread_that_runs_on(tmp_path: Path) -> None:
    """GIVEN samples of a thread that runs, at times that are drawn without memory, each of which claims one period, and
    is blocked twice for as short a time THEN no time is missing but that for which it was blocked."""
    rng = random.Random(7)
    builder = CaptureBuilder(tmp_path / "x.weft")
    elapsed_ns = 0
    for number in range(300):
        blocked = number in (100, 200)
        passed_ns = MS if blocked else round(min(4.0, rng.expovariate(1)) * MS)
        state = State.BLOCKED if blocked else State.RUNNING
        builder.run([frame(rng.choice("ab"))], MS, gap_ns=passed_ns - MS, state=state)
        elapsed_ns += passed_ns
    (profile,) = (document := export(speedscope, builder.close()))["profiles"]
    time = check_evented(profile, document["shared"]["frames"])
    first_ns = profile["events"][0]["at"]
    assert time.total() == profile["endValue"] - first_ns - 2 * MS
    assert abs(time.total() - elapsed_ns) < 6 * MS


def gecko_stack(thread: dict[str, Any], row: int | None) -> list[str]:
    """A stack as function:line, root first, followed through the tables as the profiler does."""
    stack = []
    while row is not None:
        line_row = thread["stackTable"]["frame"][row]
        name = thread["funcTable"]["name"][thread["frameTable"]["func"][line_row]]
        stack.append(f"{thread['stringArray'][name]}:{thread['frameTable']['line'][line_row]}")
        row = thread["stackTable"]["prefix"][row]
    return stack[::-1]


def test_gecko(recording: Path) -> None:
    """Stacks by line, each weighing its time; after a stretch that nothing follows, a sample without a stack."""
    document = export(gecko, recording)
    main, waiter = document["threads"]
    samples = main["samples"]
    got = [
        (gecko_stack(main, stack), time, weight)
        for stack, time, weight in zip(samples["stack"], samples["time"], samples["weight"], strict=True)
    ]
    assert got == [
        (["main:3", "work:9"], 0.0, 2.0),
        (["main:3", "work:11"], 2.0, 1.004),
        (["main:4"], 3.004, 1.0),
        ([], 4.004, 0),
        (["main:3", "work:9"], 9.004, 1.0),
        (["[no Python frame]:None"], 10.004, 1.0),
        ([], 11.004, 0),
    ]
    assert (main["pid"], main["tid"], main["isMainThread"], waiter["isMainThread"]) == ("1234", 1234, True, False)
    category = waiter["stackTable"]["category"][waiter["samples"]["stack"][0]]
    assert document["meta"]["categories"][category]["name"] == "Waiting for the GIL"


def test_gecko_categories(tmp_path: Path) -> None:
    """A frame has the category of its kind; a stack that waits, that of what it waits for."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    cython = Frame(FrameKind.CYTHON, "work", "/srv/fast.pyx", 3)
    for state in (State.RUNNING, State.RUNNABLE, State.GIL, State.IO):
        builder.run([frame("main"), cython], state=state)
    (thread,) = (document := export(gecko, builder.close(), idle=True))["threads"]
    names = [category["name"] for category in document["meta"]["categories"]]
    stacks = thread["stackTable"]
    assert [names[stacks["category"][row]] for row in thread["samples"]["stack"] if row is not None] == [
        "Cython",
        "Waiting for a CPU",
        "Waiting for the GIL",
        "Blocked",
    ]
    assert {names[stacks["category"][row]] for row in stacks["prefix"] if row is not None} == {"Python"}
    assert [names[number] for number in thread["frameTable"]["category"]] == ["Python", "Cython"]


def test_gecko_tables_are_rectangular_and_refer_to_rows_that_are_there(recording: Path) -> None:
    for thread in export(gecko, recording, idle=True)["threads"]:
        tables = ("samples", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "markers")
        for name in tables:
            columns = {k: v for k, v in thread[name].items() if isinstance(v, list)}
            assert {len(column) for column in columns.values()} == {thread[name]["length"]}, name
        stacks, frames, functions = thread["stackTable"], thread["frameTable"], thread["funcTable"]
        assert all(prefix is None or prefix < row for row, prefix in enumerate(stacks["prefix"]))
        assert all(0 <= frame < frames["length"] for frame in stacks["frame"])
        assert all(0 <= function < functions["length"] for function in frames["func"])
        strings = [*functions["name"], *functions["fileName"]]
        assert all(0 <= text < len(thread["stringArray"]) for text in strings)


@pytest.mark.parametrize(("module", "largest"), [(speedscope, 9_000_000), (chrometrace, 9_000_000), (gecko, 1_000_000)])
def test_very_deep_stacks_stay_small(tmp_path: Path, module: Any, largest: int) -> None:
    """100,000 frames deep and another depth on each sample: written out, 100 samples would take 300 MB."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    for i in range(100):
        builder.run([frame("main"), *[frame("recurse", 2)] * (100_000 if i == 0 else 50_000 + i), frame("leaf", i)])
    path = builder.close()
    with Capture(path) as capture:
        assert sum(len(chunk) for chunk in module.render(capture, View())) < largest


def test_two_threads_do_not_share_what_is_blocked(tmp_path: Path) -> None:
    """Blocked runs of one thread lie between active ones of another: each keeps its own order."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1240, "other")
    for i in range(4):
        builder.run([frame("f")], MS, state=State.BLOCKED if i % 2 else State.RUNNING)
        builder.run([frame("g")], MS, thread=2, state=State.RUNNING if i % 2 else State.BLOCKED)
    document = export(chrometrace, builder.close())
    stays = [(e["name"], e["ts"], e["dur"]) for e in document["traceEvents"] if e["ph"] == "X"]
    assert stays == [("f", 0.0, 1000.0), ("f", 2000.0, 1000.0), ("g", 1000.0, 1000.0), ("g", 3000.0, 1000.0)]


def test_speedscope_shows_allocations_by_bytes(tmp_path: Path) -> None:
    """Of mode alloc each thread is a sampled profile, whose weights are bytes (a unit of the published schema)."""
    document = export(speedscope, allocations(tmp_path / "x.weft"))
    (profile,) = document["profiles"]
    assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "bytes", 0)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    told = {
        tuple(names[index] for index in sample): weight
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
    }
    assert told == {("main", "parse", "make_array"): 3_221_225_000, ("main", "make_array"): 1_073_742_000}
    assert profile["endValue"] == sum(told.values())


@pytest.mark.parametrize("name", ["gecko", "chrometrace"])
def test_time_lines_of_allocations_are_refused(tmp_path: Path, name: str) -> None:
    """There is no time to show: one line says so, and no file is made."""
    with Capture(allocations(tmp_path / "x.weft")) as capture, pytest.raises(OutputError, match=f"{name} shows times"):
        write(capture, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()
