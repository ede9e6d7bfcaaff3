"""Is what a difference calls news true, and is it silent about noise? Programs made up of chance, with known truth."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from made_series import function, independent, lasting, series, weights

from weft.profile.difference import Normalise, compare
from weft.profile.series import Series, joined
from weft.profile.student import quantile

PAIRS = 200
# With a true rate of 5 %, there are more only once in some thousand draws; and these are the same in each run.
MOST_ALARMS = 22


def alarms(before: list[Series], after: list[Series], normalise: Normalise = Normalise.SAMPLES) -> int:
    """How many pairs have any function that is called news."""
    count = 0
    for ours, theirs in zip(before, after, strict=True):
        rows = compare(ours, theirs, normalise).rows
        count += any(row.own.is_news or row.total.is_news for row in rows)
    return count


@pytest.mark.parametrize("normalise", Normalise)
@pytest.mark.parametrize(
    ("samples", "functions", "length"),
    [(300, 30, 1), (2000, 60, 1), (2000, 12, 5), (2000, 12, 20), (2000, 12, 50), (2000, 3, 100)],
)
def test_the_same_program_twice(samples: int, functions: int, length: int, normalise: Normalise) -> None:
    """At 95 %, at most one of twenty pairs of the same program has any alarm, however many functions there are.

    Samples that find the same function for long, up to a twentieth of the recording, are what makes this hard: taken
    for independent ones, nearly every pair would have one (the next test).
    """
    rng = Random(f"{samples} {functions} {length}")
    shares = weights(functions)

    def record() -> Series:
        found = independent(rng, shares, samples) if length == 1 else lasting(rng, shares, samples, length)
        return series(found)

    assert alarms([record() for _ in range(PAIRS)], [record() for _ in range(PAIRS)], normalise) <= MOST_ALARMS


def test_lasting_samples_are_hard() -> None:
    """The same programs without the blocks, as two proportions of independent samples: most pairs have an alarm."""
    rng = Random(1)
    sides = [[joined([series(lasting(rng, weights(12), 2000, 50))]) for _ in range(40)] for _ in "ab"]
    assert alarms(*sides) > 20


def test_several_runs_each() -> None:
    """Programs that take another time on each run, as machines do: noise that no single recording can show."""
    rng = Random(2)

    def record() -> Series:
        return joined([series(independent(rng, weights(20), round(1000 * rng.uniform(0.8, 1.2)))) for _ in range(5)])

    sides = [[record() for _ in range(PAIRS)] for _ in "ab"]
    assert alarms(*sides, Normalise.NONE) <= MOST_ALARMS


@pytest.mark.parametrize(("length", "samples"), [(1, 5000), (10, 50_000)])
def test_a_known_change_is_found(length: int, samples: int) -> None:
    """A function with 5 % of the time takes twice as long: 1.05 times the work, of which it has 10 of 105 parts.

    Samples that last for ten tell as much as a twentieth of them would if they were independent.
    """
    rng = Random(3)
    shares = [95 / 30] * 30 + [5.0]
    slower = [*shares[:30], 10.0]
    found = 0
    for _ in range(20):
        ours = series(lasting(rng, shares, samples, length))
        theirs = series(lasting(rng, slower, samples * 105 // 100, length))
        rows = {row.function: row for row in compare(ours, theirs, Normalise.SAMPLES).rows}
        change = rows[function(30)[0]].own
        found += change.low > 0
        assert not change.is_news or change.low < 10 / 105 - 0.05 < change.high
    assert found >= 19


def test_intervals_hold_the_truth_all_at_once() -> None:
    """Of programs that did change, each function's true change lies in its interval, in 19 of 20 pairs for all."""
    rng = Random(4)
    before, after = [4.0, 3, 2, 1, 1, 1], [4.0, 2, 3, 1, 2, 0.5]
    truth = [b / sum(after) - a / sum(before) for a, b in zip(before, after, strict=True)]
    missed = 0
    for _ in range(PAIRS):
        ours, theirs = (series(lasting(rng, shares, 3000, 10)) for shares in (before, after))
        rows = {row.function: row.own for row in compare(ours, theirs, Normalise.SAMPLES).rows}
        missed += any(not rows[f"f{i}"].low <= true <= rows[f"f{i}"].high for i, true in enumerate(truth))
    assert missed <= MOST_ALARMS


def test_a_program_that_takes_longer_as_a_whole() -> None:
    """Twice the work in twice the time: no share has changed, and all times of a run have doubled."""
    rng = Random(5)
    ours, theirs = series(independent(rng, weights(10), 4000)), series(independent(rng, weights(10), 8000))
    shares = compare(ours, theirs, Normalise.SAMPLES)
    assert not any(row.own.is_news for row in shares.rows)
    times = compare(ours, theirs, Normalise.NONE)
    assert times.whole.low > 0
    assert times.whole.change == pytest.approx(1.0)
    assert {row.function for row in times.slower("total")} >= {"main", "f0", "f1"}


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    [  # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: upper critical values
        (0.05, 1, 12.706),
        (0.05, 2, 4.303),
        (0.05, 4, 2.776),
        (0.05, 19, 2.093),
        (0.05, inf, 1.960),
        (0.002, 5, 5.893),
        (0.002, 9, 4.297),
        (0.002, 38, 3.319),
        (0.2, 30, 1.310),
        (0.002, 100, 3.174),
    ],
)
def test_quantiles(probability: float, freedom: float, expected: float) -> None:
    assert quantile(probability, freedom) == pytest.approx(expected, abs=6e-4)
