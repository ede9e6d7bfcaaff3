"""The codec of runs, in C++, against one written here from docs/capture.md alone."""

from __future__ import annotations

import random
from array import array
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft._native import CorruptRuns, RunEncoder, RunFold, decode_runs
from weft.sample import State

START = 5_000_000_000_123
Run = tuple[int, int, int, int, int]  # at, weight, ticks, state, stack


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int) -> int:
    return -2 * value - 1 if value < 0 else 2 * value


def encode(start_us: int, runs: list[Run]) -> bytes:
    """The document's form of runs whose times are in microseconds."""
    columns: list[list[int]] = [[], [], [], [], []]
    at, weight, stack = start_us, 0, 0
    for run in runs:
        columns[0].append(zigzag(run[0] - at - run[1]))
        columns[1].append(zigzag(run[1] - weight))
        columns[2].append(zigzag(run[4] - stack))
        columns[3].append(run[2])
        columns[4].append(run[3])
        at, weight, stack = run[0], run[1], run[4]
    return varint(len(runs)) + b"".join(varint(value) for column in columns for value in column)


def decode(data: bytes, start_ns: int) -> list[Run]:
    """What decode_runs() gives, a row a run."""
    columns = []
    for packed in decode_runs(data, start_ns):
        column = array("q")
        column.frombytes(packed)
        columns.append(column)
    return list(zip(*columns, strict=True))


def random_runs(rng: random.Random, count: int) -> list[Run]:
    runs, at = [], START
    for _ in range(count):
        weight = rng.choice((0, 999, 1_000, 1_000_499, rng.randrange(3_600_000_000_000)))
        at += weight + rng.choice((0, 0, 400, 123_456_789, -min(weight, 5_000)))
        runs.append((at, weight, rng.randrange(1, 5), rng.randrange(7), rng.randrange(1 << rng.randrange(1, 40))))
    return runs


def test_what_is_encoded_is_the_documented_form() -> None:
    """Times in whole microseconds, so that nothing is rounded and both encoders must agree to the byte."""
    rng = random.Random(1)
    runs = [(at // 1000 * 1000, weight // 1000 * 1000, *rest) for at, weight, *rest in random_runs(rng, 500)]
    encoder = RunEncoder()
    for run in runs:
        encoder.append(*run)
    start, end, data = encoder.take()
    in_us = [(at // 1000, weight // 1000, *rest) for at, weight, *rest in runs]
    assert (start, end) == (runs[0][0] - runs[0][1], runs[-1][0])
    assert data == encode(start // 1000, in_us)
    assert decode(data, start) == runs


def test_rounding_neither_drifts_nor_loses_time() -> None:
    """Odd nanoseconds in thousands of runs over many batches: each `at` within half a microsecond, and the sum of the
    weights within one microsecond of the truth, for the remainder is carried on.
    """
    rng = random.Random(2)
    encoder = RunEncoder()
    runs = random_runs(rng, 5_000)
    got: list[Run] = []
    for i, run in enumerate(runs):
        encoder.append(*run)
        if i % 97 == 96 or i == len(runs) - 1:
            start, _, data = encoder.take()
            got += decode(data, start)
    assert all(abs(mine[0] - theirs[0]) <= 500 for mine, theirs in zip(got, runs, strict=True))
    assert 0 <= sum(run[1] for run in runs) - sum(run[1] for run in got) < 1_000
    assert [run[2:] for run in got] == [run[2:] for run in runs]


def test_folding_many_batches_equals_adding_by_hand() -> None:
    """20,000 pairs of stack and state, so that the table grows several times while it is in use."""
    rng = random.Random(3)
    fold, expected = RunFold(), defaultdict(lambda: [0, 0])
    for _ in range(50):
        runs = [
            (rng.randrange(1 << 40), rng.randrange(10_000), rng.randrange(1, 4), rng.randrange(3), rng.randrange(7_000))
            for _ in range(1_000)
        ]
        fold.add(encode(0, runs))
        for _, weight, ticks, state, stack in runs:
            expected[stack, state][0] += weight * 1000
            expected[stack, state][1] += ticks
    columns = [array("q", packed) for packed in fold.totals()]
    got = {(stack, state): [weight, ticks] for stack, state, weight, ticks in zip(*columns, strict=True)}
    assert got == expected
    assert len(got) > 15_000


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "cut short"),
        (b"\x80" * 20, "too long"),
        (varint(1 << 62), "fewer than they claim"),
        (encode(0, [(5, 5, 1, 0, 1)])[:-1], "fewer|cut short"),
        (encode(0, [(5, 5, 1, 0, 1)]) + b"\0", "followed by something"),
        (encode(0, [(5, 5, 1, 7, 1)]), "state"),
        (encode(0, [(5, 5, 0, 0, 1)]), "ticks"),
        (encode(0, [(5, 5, 1 << 63, 0, 1)]), "ticks"),
        (encode(0, [(1 << 62, 1 << 62, 1, 0, 1)]), "out of range"),
        (encode(0, [(5, 5, 1, 0, -1)]), "below 0"),
    ],
)
def test_bad_bytes_are_told_and_not_guessed_at(data: bytes, complaint: str) -> None:
    with pytest.raises(CorruptRuns, match=complaint):
        RunFold().add(data)
    with pytest.raises(CorruptRuns, match=complaint):
        decode(data, 0)


def test_weights_whose_sum_is_too_large_are_told() -> None:
    """Each run is in range, and their sum is not: it must not wrap around to a small number."""
    one = encode(0, [(1 << 52, 1 << 52, 1, 0, 1)])
    fold = RunFold()
    fold.add(one)
    with pytest.raises(CorruptRuns, match="out of range"):
        for _ in range(3):
            fold.add(one)


@settings(max_examples=500, deadline=None)
@given(
    st.binary(max_size=60) | st.integers(0, 3).flatmap(lambda n: st.binary(min_size=5 * n).map(lambda b: varint(n) + b))
)
def test_any_bytes_are_runs_or_an_error(data: bytes) -> None:
    """What decodes must be within its range, and must encode to something that decodes to the same."""
    try:
        runs = decode(data, START)
    except CorruptRuns:
        return
    for at, weight, ticks, state, stack in runs:
        assert abs(at) < 1 << 63
        assert 0 <= weight < 1 << 63
        assert ticks > 0
        assert state in set(State)
        assert stack >= 0
    in_us = [(at // 1000, weight // 1000, *rest) for at, weight, *rest in runs]
    assert decode(encode(START // 1000, in_us), START) == runs


@pytest.mark.parametrize("run", [(0, -1, 1, 0, 1), (0, 1, 0, 0, 1), (0, 1, 1, 7, 1)])
def test_the_encoder_takes_no_run_that_cannot_be(run: Run) -> None:
    with pytest.raises(ValueError, match="no such run"):
        RunEncoder().append(*run)


def test_an_encoder_without_runs_has_nothing_to_give() -> None:
    with pytest.raises(ValueError, match="no runs"):
        RunEncoder().take()
