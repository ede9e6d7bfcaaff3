"""Memory made of segments: bytes, files, zeros; what lies between them, over them and behind a file's end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import _native
from weft.errors import MemoryReadError

TOP = 1 << 64


def readable(image: _native.ImageMemory, address: int, size: int) -> bool:
    try:
        return len(image.read(address, size)) == size
    except MemoryReadError:
        return False


def test_reads_cross_segments_that_touch() -> None:
    """GIVEN three kinds of segment side by side, added in no order, with a gap behind them."""
    image = _native.ImageMemory()
    image.add_bytes(0x1010, b"b" * 16)
    image.add_zeros(0x1020, 16)
    image.add_bytes(0x1000, b"a" * 16)
    assert image.read(0x1000, 48) == b"a" * 16 + b"b" * 16 + bytes(16)
    assert image.read(0x100F, 2) == b"ab"
    assert not readable(image, 0x1020, 17)
    assert not readable(image, 0xFFF, 2)


def test_files(tmp_path: Path) -> None:
    """GIVEN a file of which a part is mapped, that is shorter than its segment says, or has gone."""
    path = tmp_path / "module"
    path.write_bytes(bytes(range(200)))
    image = _native.ImageMemory()
    image.add_file(0x1000, 100, str(path), 50)
    image.add_file(0x2000, 100, str(path), 150)
    image.add_file(0x3000, 100, str(path), (1 << 63) - 10)
    assert image.read(0x1000, 100) == bytes(range(50, 150))
    assert image.read(0x2000, 50) == bytes(range(150, 200))
    assert not readable(image, 0x2000, 51)
    assert not readable(image, 0x3000, 20)
    path.write_bytes(b"")
    assert not readable(image, 0x1000, 1)
    with pytest.raises(RuntimeError):
        image.add_file(0x4000, 1, str(tmp_path / "none"), 0)


@pytest.mark.parametrize("address", [-1, -(1 << 70), TOP, TOP + 0x1000, 1 << 100])
def test_no_such_address(address: int) -> None:
    """GIVEN an address computed from a target's bytes, which no 64 bits can hold: it must not be taken modulo 2^64."""
    image = _native.ImageMemory()
    image.add_zeros(0, 0x2000)
    image.add_zeros(TOP - 0x2000, 0x2000)
    with pytest.raises(MemoryReadError):
        image.read(address, 8)


@pytest.mark.parametrize("size", [-1, 1 << 31, TOP - 1, TOP, 1 << 100])
def test_no_such_size(size: int) -> None:
    """GIVEN a length that a target has made up: no room is made for it."""
    image = _native.ImageMemory()
    image.add_zeros(0, TOP - 1)
    with pytest.raises(MemoryReadError):
        image.read(8, size)


def test_the_end_of_the_address_space() -> None:
    """GIVEN a segment that ends at 2^64: what would go on behind it is address 0."""
    image = _native.ImageMemory()
    image.add_bytes(TOP - 4, b"last")
    assert image.read(TOP - 4, 4) == b"last"
    assert not readable(image, TOP - 4, 5)


segments = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=8)


@settings(deadline=None, max_examples=500)
@given(segments=segments, begin=st.integers(0, 100), size=st.integers(1, 60))
def test_the_first_of_overlapping_segments_is_read(segments: list[tuple[int, int]], begin: int, size: int) -> None:
    """GIVEN segments that overlap in any way, also one that was added first inside of one that was added later: each
    byte is compared with a picture of the memory that is painted byte by byte, the last segment first."""
    image = _native.ImageMemory()
    picture: dict[int, int] = {}
    for number, (at, length) in reversed(list(enumerate(segments, 1))):
        picture |= dict.fromkeys(range(at, at + length), number)
    for number, (at, length) in enumerate(segments, 1):
        image.add_bytes(at, bytes([number]) * length)
    wanted = [picture.get(at) for at in range(begin, begin + size)]
    if None in wanted:
        assert not readable(image, begin, size)
    else:
        assert list(image.read(begin, size)) == wanted
