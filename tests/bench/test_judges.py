"""The bench's judges of blocked time, allocated bytes and stacks: what is made up wrongly is told as wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.asked import off_by
from benchmarks.blocked import errors_of, gil_error, seen_of, shares_seen, shares_true, told_right, whole_turns
from benchmarks.dumpers import NATIVE, OTHER, PYTHON, Place, plain
from benchmarks.peers import PeerFailedError, Stack
from benchmarks.scalene import percents
from benchmarks.stacks import compare
from weft.sample import Frame, FrameKind, State

# Ten times a second of four waits and half a second at work, as the thread has noted them.
TURNS = [
    (function, second + begin, second + end)
    for second in range(10)
    for function, begin, end in (
        ("waits_for_sleep", 0.0, 0.3),
        ("waits_for_pipe", 0.3, 0.5),
        ("waits_for_lock", 0.5, 0.6),
        ("waits_for_gil", 0.6, 1.002),
        ("computes", 1.002, 1.5),
    )
]
WHOLE = range(5, 45)


def seen(turn: int, function: str, weight: float, *states: State) -> tuple[Stack, float]:
    """A stack in one of the functions, with the states that a recorder has told of it."""
    frames = [Frame(FrameKind.PYTHON, name, "waits.py", 1) for name in ("works", f"turn_{turn}", function)]
    marks = [Frame(FrameKind.MARKER, state.name, "", 0) for state in states]
    return (*frames, *marks), weight


def right(first: int) -> list[tuple[Stack, float]]:
    """What a recorder should see of five turns."""
    return [
        seen(first, "waits_for_sleep", 0.3, State.SLEEPING),
        seen(first + 1, "waits_for_pipe", 0.2, State.IO),
        seen(first + 2, "waits_for_lock", 0.1, State.LOCK),
        seen(first + 3, "waits_for_gil", 0.002, State.SLEEPING),
        seen(first + 3, "waits_for_gil", 0.4, State.GIL),
        seen(first + 4, "computes", 0.498, State.RUNNING),
    ]


# It began late in a turn and ended early in another.
RIGHT = [
    seen(4, "computes", 0.01, State.RUNNING),
    *(part for first in range(5, 45, 5) for part in right(first)),
    seen(45, "waits_for_sleep", 0.01, State.SLEEPING),
    ((Frame(FrameKind.PYTHON, "holds", "waits.py", 1),), 9.0),  # another thread
]


def but(which: str, *others: State, weight: float = 1.0) -> list[tuple[Stack, float]]:
    """The same, but one function, for so much of its time, in other states."""
    marks = tuple(Frame(FrameKind.MARKER, state.name, "", 0) for state in others)
    return [
        ((*stack[:3], *marks), weight * seconds)
        if any(frame.function == which for frame in stack)
        else (stack, seconds)
        for stack, seconds in RIGHT
    ]


def test_blocked_time() -> None:
    """GIVEN a recording that is right THEN it has no error; GIVEN one that sees a wait twice THEN that is its error."""
    assert whole_turns(seen_of(RIGHT)) == WHOLE
    true = shares_true(TURNS, WHOLE)
    assert true["waits_for_gil"] == pytest.approx(0.402 / 1.5)
    assert errors_of(shares_seen(seen_of(RIGHT), WHOLE), true) == pytest.approx(dict.fromkeys(true, 0.0))
    twice = seen_of(but("waits_for_lock", State.LOCK, weight=2.0))
    errors = errors_of(shares_seen(twice, WHOLE), true)
    assert errors.pop("waits_for_lock") == pytest.approx(2 * 1.5 / 1.6 - 1)
    assert errors == pytest.approx(dict.fromkeys(errors, 1.5 / 1.6 - 1))


def test_what_saw_little_of_waits_is_not_judged() -> None:
    """GIVEN a recording of another thread alone, or of few turns THEN it is told so."""
    with pytest.raises(PeerFailedError, match="nothing of the thread"):
        seen_of(RIGHT[-1:])
    with pytest.raises(PeerFailedError, match="there for 4 turns"):
        whole_turns(seen_of(RIGHT[:7]))


def test_causes() -> None:
    """GIVEN a wait for a lock that is told as one for the GIL THEN its part is wrong, and no more."""
    assert told_right(seen_of(RIGHT)) == pytest.approx(1)
    assert gil_error(seen_of(RIGHT), TURNS, WHOLE) == pytest.approx(0)
    assert told_right(seen_of(but("waits_for_lock", State.GIL))) == pytest.approx(1 - 8 * 0.1 / (8 * 1.002 + 0.01))
    asleep = seen_of(but("waits_for_gil", State.SLEEPING))
    assert gil_error(asleep, TURNS, WHOLE) == pytest.approx(-1)
    untold = seen_of(but("waits_for_lock"))
    assert told_right(untold) is None
    assert gil_error(untold, TURNS, WHOLE) is None


def test_bytes() -> None:
    """GIVEN one function that is told too low and one that is not told at all THEN both are told as wrong."""
    asked = {"asks_many": 1000, "asks_more": 500, "asks_large": 4000}
    assert off_by({"asks_many": 900, "asks_large": 4000, "main": 5000}, asked) == pytest.approx(
        {"asks_many": -0.1, "asks_more": -1, "asks_large": 0}
    )
    with pytest.raises(PeerFailedError, match="none of what"):
        off_by({"main": 5000}, asked)


def test_lines_count_for_their_work() -> None:
    """GIVEN functions that work for others THEN their time is that of the kind of work, and what is neither is left."""
    functions = [
        {"line": name, "n_cpu_percent_python": 6.0, "n_cpu_percent_c": 3.0, "n_sys_percent": 1.0}
        for name in ("recursion", "dive", "loops", "main")
    ]
    assert percents(
        {"files": {"kinds.py": {"functions": functions}}}, {"recursion": 1.0, "loops": 1.0, "calls": 1.0}
    ) == {
        "recursion": 20,
        "loops": 10,
        "calls": 0,
    }


def stack(*names: str) -> list[Place]:
    """Root first; names in small letters are Python's."""
    return [Place(PYTHON if name.islower() else NATIVE, name) for name in names]


BY_GDB = stack("Main", "module", "top", "Sorted", "ListSort", "key", "leaf", "Read")


def test_a_stack_like_gdbs() -> None:
    """GIVEN the same stack, or one without some frames THEN nothing is wrong, and what is not shown is told."""
    same = compare(BY_GDB, BY_GDB)
    assert (same.shown, same.missing, same.misplaced, same.unknown) == (same.whole, [], [], [])
    assert same.whole == {PYTHON: 4, NATIVE: 4}
    fewer = compare(stack("module", "top", "Sorted", "key", "leaf"), BY_GDB)
    assert fewer.shown == {PYTHON: 4, NATIVE: 1}
    assert fewer.missing == stack("Main", "ListSort", "Read")
    assert not fewer.misplaced + fewer.unknown


def test_wrong_stacks() -> None:
    """GIVEN a C function above the Python function that calls it, or one that is nowhere THEN each is told as that."""
    swapped = compare(stack("Main", "module", "Sorted", "top", "ListSort", "key", "leaf", "Read"), BY_GDB)
    assert len(swapped.misplaced) == 1
    assert not swapped.unknown
    invented = compare(stack("Main", "module", "top", "Sorted", "ListSort", "Other", "key", "leaf", "Read"), BY_GDB)
    assert invented.unknown == stack("Other")
    assert not invented.misplaced
    nameless = Place(NATIVE, "?")
    no_name = compare([*BY_GDB, nameless], [nameless, *BY_GDB])
    assert no_name.nameless == 1
    assert not no_name.unknown + no_name.misplaced


def test_another_greenlets_stack() -> None:
    """GIVEN frames outside of another greenlet's activation THEN they may be shown or not."""
    by_gdb = [*stack("Main"), Place(OTHER, "Eval"), *stack("Switch", "leaf")]
    for shown in (stack("Switch", "leaf"), stack("Main", "Switch", "leaf")):
        difference = compare(shown, by_gdb)
        assert difference.shown == difference.whole == {PYTHON: 1, NATIVE: 1}
        assert not difference.missing + difference.misplaced + difference.unknown


def test_names_of_one_function() -> None:
    """THEN what tools call one function is one name, and what differs is not."""
    for names in (
        ("__GI___libc_read", "read"),
        ("__libc_start_main_impl", "__libc_start_main@@GLIBC_2.34"),
        ("greenlet::UserGreenlet::g_switch", "g_switch"),
        ("__pyx_pw_7fixture_5Shape_1method", "__pyx_pf_7fixture_5Shape_method", "method"),
        ("list_sort_impl.cold", "list_sort_impl"),
        ("??", "0x7f00", "fun_6250"),
    ):
        assert len({plain(NATIVE, name) for name in names}) == 1, names
    assert plain(NATIVE, "builtin_sorted") != plain(NATIVE, "list_sort")
    assert plain(PYTHON, "main.<locals>.leaf") == Place(PYTHON, "leaf") != plain(NATIVE, "leaf")
