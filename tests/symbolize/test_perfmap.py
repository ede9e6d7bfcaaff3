"""Names of code in no module, from files that anyone may have written."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from weft.target import perfmap
from weft.target.perfmap import JitNames, Room, functions_of_dump, functions_of_map, without_overlaps
from weft.target.process import Process


def dump_of(*functions: tuple[int, int, bytes]) -> bytes:
    """A jitdump (jitdump-specification.txt of the kernel's perf)."""
    records = [struct.pack("<4sIIIIIQQ", b"DTiJ", 1, 40, 62, 0, 1, 0, 0), struct.pack("<IIQ", 4, 24, 0) + bytes(8)]
    for number, (begin, size, name) in enumerate(functions):
        body = struct.pack("<IIQQQQ", 1, 1, begin, begin, size, number) + name + b"\0" + bytes(size)
        records.append(struct.pack("<IIQ", 0, 16 + len(body), 0) + body)
    return b"".join(records)


def test_lines() -> None:
    """GIVEN lines of any kind THEN those that tell a function are read, and no others."""
    lines = [b"10 8 f", b"0x20 0x8 g h:/a b.py", b"", b"30", b"zz 8 x", b"40 0 empty", b"50 8 ", b"-60 8 x", b"70 -8 x"]
    lines += [b"ffffffffffffffff 8 x", b"80 8 \xff", b"90 8 " + b"n" * 10_000]
    found = list(functions_of_map(b"\n".join(lines)))
    assert found[:3] == [(0x10, 0x18, b"f"), (0x20, 0x28, b"g h:/a b.py"), (0x80, 0x88, b"\xff")]
    assert [(begin, len(name)) for begin, _, name in found[3:]] == [(0x90, 4096)]


def test_dump() -> None:
    """GIVEN a jitdump, cut anywhere THEN its whole records are read."""
    whole = dump_of((0x1000, 11, b"py::f:/a.py"), (0x2000, 5, b"g"))
    assert list(functions_of_dump(whole)) == [(0x1000, 0x100B, b"py::f:/a.py"), (0x2000, 0x2005, b"g")]
    counts = [len(list(functions_of_dump(whole[:size]))) for size in range(len(whole) + 1)]
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2}


def test_damaged_dumps() -> None:
    """GIVEN bytes that were changed by chance THEN reading ends."""
    chance = random.Random(1)
    whole = dump_of(*((number << 12, 11, b"name") for number in range(1, 20)))
    for _ in range(2000):
        copy = bytearray(whole)
        for _ in range(chance.randrange(1, 5)):
            copy[chance.randrange(len(copy))] = chance.randrange(256)
        assert len(list(functions_of_dump(copy))) <= 20


def test_the_last_holds() -> None:
    """GIVEN code that was replaced by other code, in whole or in part THEN each address has the last name of it."""
    chance = random.Random(2)
    for _ in range(300):
        told = [
            (begin, begin + chance.randrange(1, 9), b"%d" % number)
            for number, begin in enumerate(chance.choices(range(30), k=12))
        ]
        expected = {address: name for begin, end, name in told for address in range(begin, end)}
        found = without_overlaps(told)
        assert {address: name for begin, end, name in found for address in range(begin, end)} == expected
        assert all(before[1] <= after[0] for before, after in pairwise(found))


@pytest.fixture
def own_map() -> Iterator[Path]:
    """The perf map of this very process."""
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    yield path
    path.unlink(missing_ok=True)


def test_a_growing_file(own_map: Path) -> None:
    """GIVEN a map that comes, grows and is written anew THEN what stands in it is told, to the moment it is closed."""
    names = JitNames(Process(os.getpid()), Room())
    assert names.functions() == []
    own_map.write_bytes(b"10 8 f\n20 8 ")
    assert names.functions() == [(0x10, 0x18, b"f")]
    with own_map.open("ab") as file:
        file.write(b"g\n")
    assert names.functions() == [(0x10, 0x18, b"f"), (0x20, 0x28, b"g")]
    own_map.write_bytes(b"30 8 h\n")
    assert names.functions() == [(0x30, 0x38, b"h")]
    names.close()
    own_map.write_bytes(b"40 8 i\n40 8 j\n")
    assert names.functions() == [(0x30, 0x38, b"h")]


def test_the_files_of_many_processes(own_map: Path) -> None:
    """GIVEN room for three lines in all WHEN two of the first process are read THEN one is of the second one."""
    own_map.write_bytes(b"10 8 f\n20 8 g\n")
    room = Room()
    room.left = 21
    first, second = (JitNames(Process(os.getpid()), room) for _ in range(2))
    assert first.functions() == [(0x10, 0x18, b"f"), (0x20, 0x28, b"g")]
    assert second.functions() == [(0x10, 0x18, b"f")]
    own_map.write_bytes(b"30 8 h\n")
    assert first.functions() == [(0x30, 0x38, b"h")]
    assert room.left == 7


def test_what_is_no_file_of_its_own(own_map: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a link, a pipe, another's file, or one without end THEN it is not followed, waited for, or read on."""
    target = tmp_path / "elsewhere"
    target.write_bytes(b"10 8 f\n")
    own_map.symlink_to(target)
    assert JitNames(Process(os.getpid()), Room()).functions() == []
    own_map.unlink()
    os.mkfifo(own_map)
    assert JitNames(Process(os.getpid()), Room()).functions() == []
    own_map.unlink()
    own_map.write_bytes(b"10 8 f\n")
    os.chown(own_map, 12_345, -1)
    assert JitNames(Process(os.getpid()), Room()).functions() == []
    os.chown(own_map, os.getuid(), -1)
    monkeypatch.setattr(perfmap, "_MAX_BYTES", 14)
    own_map.write_bytes(b"10 8 f\n" * 1000)
    assert JitNames(Process(os.getpid()), Room()).functions() == [(0x10, 0x18, b"f")]
