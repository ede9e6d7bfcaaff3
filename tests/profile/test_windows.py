"""Parts of a recording by time, against the plainest count that there is."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from capture.builder import SECOND, START_NS, CaptureBuilder, frame

from weft.capture import Capture
from weft.profile.tables import Profile, View
from weft.profile.windows import within
from weft.sample import State

MS = 1_000_000


def test_windows_have_what_lies_in_them(tmp_path: Path) -> None:
    """Runs that lie in a window, cross one edge or both, or lie between windows; two threads, and one that stands still
    at the end. Each microsecond is counted by hand.
    """
    rng = random.Random(6)
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1240, "other")
    windows = [(START_NS + start * MS, START_NS + end * MS) for start, end in ((0, 5), (5, 6), (9, 40), (45, 400))]
    expected: list[Counter[tuple[int, str, State]]] = [Counter() for _ in windows]

    def count(thread: int, begin: int, end: int, name: str, state: State) -> None:
        for window, found in zip(windows, expected, strict=True):
            if (part := min(end, window[1]) - max(begin, window[0])) > 0:
                found[thread, name, state] += part

    clocks = {1: START_NS, 2: START_NS}
    for _ in range(60):
        thread, name, state = rng.choice([1, 2]), rng.choice("abc"), rng.choice([*State])
        weight, gap = rng.randrange(1, 9000) * 1000, rng.randrange(0, 500) * 1000
        builder.run([frame(name)], weight, thread=thread, state=state, gap_ns=gap)
        clocks[thread] += weight + gap
        count(thread, clocks[thread] - weight, clocks[thread], name, state)
    builder.commit(START_NS + SECOND)
    since = clocks[2] + 10 * MS
    builder.writer.set_standing(2, builder.stack([frame("stands")]), State.LOCK, since)
    builder.commit(START_NS + SECOND)
    builder.writer.close()
    count(2, since, START_NS + SECOND, "stands", State.LOCK)
    with Capture(tmp_path / "x.weft") as capture:
        parts = within(capture, Profile.from_capture(capture, View(idle=True)), windows)
    for part, (start, end), found in zip(parts, windows, expected, strict=True):
        profile = part.profile
        got = {
            (total.thread, profile.frames[profile.stacks.frame[total.stack]].function, total.state): total.weight_ns
            for total in profile.totals
        }
        assert got == dict(found)
        assert profile.duration_ns == end - start
        by_run: Counter[tuple[int, str, State]] = Counter()
        for thread in profile.threads:
            for runs in part.runs(thread):
                for at_ns, weight_ns, state, stack in zip(
                    runs.at_ns, runs.weight_ns, runs.state, runs.stack, strict=True
                ):
                    assert start <= at_ns - weight_ns < at_ns <= end
                    function = profile.frames[profile.stacks.frame[profile.nodes[stack]]].function
                    by_run[thread, function, State(state)] += weight_ns
        assert by_run == found


def test_no_windows(tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame("f")], MS)
    with Capture(builder.close()) as capture:
        assert within(capture, Profile.from_capture(capture), []) == []
