"""What weft writes in another tool's form and reads again is what it was, as far as the form can tell it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from capture.builder import CaptureBuilder, frame

from weft.capture import Capture
from weft.export import collapsed, gecko, pprof, speedscope
from weft.imports import open_recording
from weft.profile.names import frame_label
from weft.profile.quality import Account
from weft.profile.tables import Profile, View
from weft.sample import Frame, FrameKind, State

MS = 1_000_000


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Stacks of all kinds of code, of two threads in two processes and in several states."""
    rng = random.Random(9)
    kinds = [
        frame("main", 12),
        frame("work", 7, first_line=5),
        frame("<lambda>", 3, "<string>"),
        frame("größe; x", 4, "/srv/a b.py"),
        Frame(FrameKind.CYTHON, "fast", "/srv/fast.pyx", 3),
    ]
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_process(2, 1300, ["python3", "child.py"], 1)
    builder.add_thread(2, 2, 1301, "worker")
    for number in range(300):
        stack = [rng.choice(kinds) for _ in range(rng.randrange(6))]
        state = rng.choice([State.RUNNING, State.RUNNING, State.GIL, State.BLOCKED])
        builder.run(stack, rng.randrange(1, 9) * MS, thread=1 + number % 2, state=state, ticks=rng.randrange(1, 5))
    return builder.close()


def export(module: Any, path: Path, to: Path) -> Path:
    with Capture(path) as capture:
        to.write_bytes(b"".join(module.render(capture, View(idle=True))))
    return to


def load(path: Path) -> Profile:
    with open_recording(path) as capture:
        return Profile.from_capture(capture, View(idle=True))


def test_pprof(recording: Path, tmp_path: Path) -> None:
    """Stacks with lines, threads, processes, states, times and counts: all of it, but the kinds of code that no file
    name tells.
    """

    def told(profile: Profile) -> Counter[tuple[object, ...]]:
        found: Counter[tuple[object, ...]] = Counter()
        for total in profile.totals:
            thread, process = profile.threads[total.thread], profile.processes[total.process]
            frames = [profile.frames[number] for number in profile.stacks.path(total.stack)]
            stack = tuple((each.kind, each.function, each.file, each.line) for each in frames)
            found[thread.name, thread.tid, process.pid, total.state, stack, "ns"] += total.weight_ns
            found[thread.name, thread.tid, process.pid, total.state, stack, "ticks"] += total.ticks
        return found

    ours, theirs = load(recording), load(export(pprof, recording, tmp_path / "x.pb.gz"))
    assert told(ours) == told(theirs)
    assert (theirs.rate_hz, theirs.mode, theirs.start_unix_ns) == (1000, "wall", ours.start_unix_ns)
    assert not theirs.timed


def test_collapsed(recording: Path, tmp_path: Path) -> None:
    """The file that is written of what was read is the file that was read."""
    first = export(collapsed, recording, tmp_path / "1.folded")
    with open_recording(first) as capture:
        second = b"".join(collapsed.render(capture, View()))
        account = Account.from_capture(capture)
    assert sorted(second.splitlines()) == sorted(first.read_bytes().splitlines())
    assert any("tells no time" in warning for warning in account.warnings)


def test_speedscope(recording: Path, tmp_path: Path) -> None:
    """The time line: what each thread showed, and when, by function."""
    first = export(speedscope, recording, tmp_path / "1.speedscope.json")
    ours, theirs = load(recording), load(first)

    def times(profile: Profile) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for total in profile.totals:
            stack = profile.stacks.path(total.stack)
            found[tuple(profile.frames[number].function for number in stack)] += total.weight_ns
        return found

    assert times(ours) == times(theirs)
    assert theirs.timed
    with open_recording(first) as capture:
        assert sum(len(runs.at_ns) for thread in theirs.threads for runs in capture.runs(thread)) > 200
        (tmp_path / "2.gecko.json.gz").write_bytes(b"".join(gecko.render(capture, View())))


def test_kinds_of_code(tmp_path: Path) -> None:
    """By what its place says: Python, native with and without a line, kernel, markers, and names without a place."""
    labels = [
        "main (app.py:3)",
        "<module> (<frozen importlib._bootstrap>:1)",
        "fast (core.pyx:7)",
        "compute (lib.c:12)",
        "PyEval_EvalFrame (libpython3.12.so.1.0)",
        "read [k]",
        "[kernel]",
        "[truncated: depth]",
        "operator()(int) (a.cc:5)",
        "runtime.main",
    ]
    path = tmp_path / "x.folded"
    path.write_text(";".join(labels) + " 5\n# a comment\n\nwrite_[k] 2\r\n")
    profile = load(path)
    kinds = {frame_label(each): each.kind.name for each in profile.frames}
    assert kinds == {
        "main (app.py:3)": "PYTHON",
        "<module> (<frozen importlib._bootstrap>:1)": "PYTHON",
        "fast (core.pyx:7)": "CYTHON",
        "compute (lib.c:12)": "NATIVE",
        "PyEval_EvalFrame (libpython3.12.so.1.0)": "NATIVE",
        "read [k]": "KERNEL",
        "[kernel]": "MARKER",
        "[truncated: depth]": "MARKER",
        "operator()(int) (a.cc:5)": "NATIVE",
        "runtime.main": "NATIVE",
        "write [k]": "KERNEL",
    }
    assert profile.ticks == 7
