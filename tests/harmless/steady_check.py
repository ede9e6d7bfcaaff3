"""Whether the target steady.py was disturbed: what it told, against what is computed anew here."""

from __future__ import annotations

import zlib
from typing import Any

BLOCK = bytes(range(256)) * 64


def chain(rounds: int) -> int:
    """The checksum that one computing thread has after so many rounds: the target has spent seconds on them.

    A round is an affine map over the 32 bits of the checksum, so many are computed by squaring it.
    """
    constant = zlib.crc32(BLOCK)
    columns = [zlib.crc32(BLOCK, 1 << bit) ^ constant for bit in range(32)]
    checksum = 0
    while rounds:
        if rounds & 1:
            checksum = _times(columns, checksum) ^ constant
        constant ^= _times(columns, constant)
        columns = [_times(columns, column) for column in columns]
        rounds >>= 1
    return checksum


def _times(columns: list[int], vector: int) -> int:
    """A matrix of bits times a vector of them."""
    product = 0
    for bit, column in enumerate(columns):
        if vector >> bit & 1:
            product ^= column
    return product


def assert_undisturbed(told: dict[str, Any]) -> None:
    """Its checksums are those of its rounds, no number, token, child or tick was lost, and no call has failed."""
    assert not told["errors"], told["errors"][0]
    assert len(told["chains"]) == 2
    for rounds, checksum in told["chains"]:
        assert rounds > 0
        assert checksum == chain(rounds)
    numbers, total = told["read"]
    assert numbers > 0
    assert total == numbers * (numbers + 1) // 2
    there, back = told["passed"]
    assert there - back in (0, 1)  # the end may come between the two
    assert there > 0
    started, right = told["children"]
    assert started == right > 0
    assert told["ticks"] > 0
