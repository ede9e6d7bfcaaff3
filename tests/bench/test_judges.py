"""The bench's judges of blocked time and of allocated bytes: what is made up wrongly is told as wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.asked import off_by
from benchmarks.blocked import errors_of, gil_error, shares_seen, shares_true, told_right
from benchmarks.peers import PeerFailedError, Stack
from weft.sample import Frame, FrameKind, State

# A second of four waits, as the thread has noted them, and half a second at work.
TURNS = [
    ("waits_for_sleep", 10.0, 10.3),
    ("waits_for_pipe", 10.3, 10.5),
    ("waits_for_lock", 10.5, 10.6),
    ("waits_for_gil", 10.6, 11.002),
    ("computes", 11.002, 11.5),
]


def seen(function: str, weight: float, *states: State) -> tuple[Stack, float]:
    """A stack in one of the functions, with the states that a recorder has told of it."""
    frames = [Frame(FrameKind.PYTHON, name, "waits.py", 1) for name in ("run", "works", function)]
    marks = [Frame(FrameKind.MARKER, state.name, "", 0) for state in states]
    return (*frames, *marks), weight


RIGHT = [
    seen("waits_for_sleep", 0.3, State.SLEEPING),
    seen("waits_for_pipe", 0.2, State.IO),
    seen("waits_for_lock", 0.1, State.LOCK),
    seen("waits_for_gil", 0.002, State.SLEEPING),
    seen("waits_for_gil", 0.4, State.GIL),
    seen("computes", 0.498, State.RUNNING),
    ((Frame(FrameKind.PYTHON, "holds", "waits.py", 1),), 9.0),  # another thread
]


def test_blocked_time() -> None:
    """GIVEN a recording that is right THEN it has no error; GIVEN one that sees a wait twice THEN that is its error."""
    true = shares_true(TURNS, 10.0, 11.5)
    assert errors_of(shares_seen(RIGHT), true) == pytest.approx(dict.fromkeys(true, 0.0))
    twice = [*RIGHT[:2], *RIGHT[2:3] * 2, *RIGHT[3:5], seen("computes", 0.398, State.RUNNING)]
    errors = errors_of(shares_seen(twice), true)
    assert errors.pop("waits_for_lock") == pytest.approx(1)
    assert errors == pytest.approx(dict.fromkeys(errors, 0.0))
    with pytest.raises(PeerFailedError, match="nothing of the thread"):
        shares_seen(RIGHT[-1:])


def test_a_window_cuts_waits() -> None:
    """GIVEN a recording that began and ended within waits THEN what was before and after it does not count."""
    assert shares_true(TURNS, 10.2, 10.4) == pytest.approx(
        {"waits_for_sleep": 0.5, "waits_for_pipe": 0.5, "waits_for_lock": 0, "waits_for_gil": 0}
    )


def test_causes() -> None:
    """GIVEN a wait for a lock that is told as one for the GIL THEN its part is wrong, and no more."""
    assert told_right(RIGHT) == pytest.approx(1)
    assert gil_error(RIGHT, TURNS, 10.0, 11.5) == pytest.approx(0)
    wrong = [*RIGHT[:2], seen("waits_for_lock", 0.1, State.GIL), *RIGHT[3:]]
    assert told_right(wrong) == pytest.approx(1 - 0.1 / 1.002)
    asleep = [*RIGHT[:4], seen("waits_for_gil", 0.4, State.SLEEPING), *RIGHT[5:]]
    assert gil_error(asleep, TURNS, 10.0, 11.5) == pytest.approx(-1)
    untold = [seen("waits_for_lock", 0.1), seen("computes", 0.4)]
    assert told_right(untold) is None
    assert gil_error(untold, TURNS, 10.0, 11.5) is None


def test_bytes() -> None:
    """GIVEN one function that is told too low and one that is not told at all THEN both are told as wrong."""
    asked = {"asks_many": 1000, "asks_more": 500, "asks_large": 4000}
    assert off_by({"asks_many": 900, "asks_large": 4000, "main": 5000}, asked) == pytest.approx(
        {"asks_many": -0.1, "asks_more": -1, "asks_large": 0}
    )
    with pytest.raises(PeerFailedError, match="none of what"):
        off_by({"main": 5000}, asked)
