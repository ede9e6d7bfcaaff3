"""Programs made up of chance, whose truth is known: which function each sample finds, as a recording would tell it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from weft.profile.series import BLOCKS, Series

SAMPLE_NS = 1_000_000
FILE = "/srv/app.py"


def function(number: int) -> tuple[str, str]:
    return f"f{number}", FILE


def weights(functions: int) -> list[float]:
    """The shares of functions in a program: few take much, many take little."""
    return [1 / (rank + 1) for rank in range(functions)]


def independent(rng: Random, shares: Sequence[float], samples: int) -> list[int]:
    """Each sample finds any function, whatever the last one found."""
    return rng.choices(range(len(shares)), shares, k=samples)


def lasting(rng: Random, shares: Sequence[float], samples: int, length: float) -> list[int]:
    """Each function is found again and again, for `length` samples on average: samples that tell little anew."""
    found: list[int] = []
    while len(found) < samples:
        found += rng.choices(range(len(shares)), shares) * max(1, round(rng.expovariate(1 / length)))
    return found[:samples]


def series(found: Iterable[int]) -> Series:
    """A recording that found these functions one after the other, all called by one."""
    seen = list(found)
    own: dict[tuple[str, str], list[int]] = {}
    whole = [0] * BLOCKS
    for place, number in enumerate(seen):
        block = place * BLOCKS // len(seen)
        own.setdefault(function(number), [0] * BLOCKS)[block] += SAMPLE_NS
        whole[block] += SAMPLE_NS
    total = {**own, ("main", FILE): whole}
    length_ns = len(seen) * SAMPLE_NS / BLOCKS
    return Series(own, total, whole, [length_ns] * BLOCKS, [1 / BLOCKS] * BLOCKS, len(seen), ordered=True)
