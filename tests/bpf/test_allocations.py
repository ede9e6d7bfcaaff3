"""bpf/allocations.h, compiled for the host: which requests for memory are sampled, by the exponential law."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import pytest

MEAN = 1 << 19
DRAWS = 400_000


@pytest.fixture(scope="module")
def kernel(on_host: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    """The library."""
    loaded = on_host("allocations.c")
    loaded.begin.argtypes = [ctypes.c_uint64]
    for name in ("ask", "ask_in_between", "bytes_of"):
        getattr(loaded, name).argtypes = [ctypes.c_uint64, ctypes.c_uint64]
        getattr(loaded, name).restype = ctypes.c_uint64
    return loaded


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gaps_follow_the_exponential_law(kernel: ctypes.CDLL, seed: int) -> None:
    """GIVEN many gaps THEN nowhere does their distribution differ from 1 - exp(-gap / mean) by more than chance does:
    the statistic of Kolmogorov and Smirnov stays below 1.95 / sqrt(n), which it exceeds once in 1,000 times."""
    gaps = (ctypes.c_uint64 * DRAWS)()
    kernel.begin(seed)
    kernel.draw(gaps, ctypes.c_uint64(DRAWS))
    apart = 0.0
    for number, gap in enumerate(sorted(gaps)):
        chance = -math.expm1(-gap / MEAN)
        apart = max(apart, abs(chance - number / DRAWS), abs(chance - (number + 1) / DRAWS))
    assert apart < 1.95 / math.sqrt(DRAWS)
    assert abs(sum(gaps) / DRAWS - MEAN) < 5 * MEAN / math.sqrt(DRAWS)


@pytest.mark.parametrize("in_between", [False, True])
@pytest.mark.parametrize("size", [1, 16, 1000, 100_000, MEAN, 10 * MEAN])
def test_sizes_are_sampled_as_often_as_they_should(kernel: ctypes.CDLL, size: int, *, in_between: bool) -> None:
    """GIVEN requests of one size THEN each is sampled with the chance that its weight supposes; also those that come
    while the counter is used up and has no new value yet."""
    chance = -math.expm1(-size / MEAN)
    count = min(20_000_000, int(20_000 / chance)) if not in_between else min(2_000_000, int(20_000 / chance))
    kernel.begin(size)
    sampled = (kernel.ask_in_between if in_between else kernel.ask)(size, count)
    sigma = math.sqrt(count * chance * (1 - chance))
    assert abs(sampled - count * chance) <= 5 * sigma + 1
    sums = (ctypes.c_uint64 * 3)()
    kernel.get_sums(sums)
    assert list(sums) == [count, count * size, 0]


def test_requests_that_cannot_be(kernel: ctypes.CDLL) -> None:
    """GIVEN calloc with a product that does not fit 64 bits, and more bytes than there are addresses THEN no sample."""
    kernel.begin(1)
    assert kernel.bytes_of(3, 5) == 15
    assert kernel.bytes_of(5 << 30, 1) == kernel.bytes_of(1, 5 << 30) == 5 << 30
    assert kernel.bytes_of(0, 1 << 63) == kernel.bytes_of(1 << 63, 0) == 0
    for members, size in ((1 << 32, 1 << 32), (1 << 63, 2), ((1 << 64) - 1, (1 << 64) - 1)):
        assert kernel.ask(kernel.bytes_of(members, size), 1) == 0
    assert kernel.ask(1 << 62, 1) == 0
    sums = (ctypes.c_uint64 * 3)()
    kernel.get_sums(sums)
    assert list(sums) == [0, 0, 4]
