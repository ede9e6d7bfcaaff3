"""The unwind tables in the kernel's maps: what happens when these are full."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from weft_command import LIMIT_S

from weft import Capture, Collector, Mode, Options, Profile, _native, record_process
from weft.collect.bpf.kernel import MMAPABLE, Map, MapKind, possible_cpus
from weft.collect.bpf.program import Object
from weft.collect.bpf.tables import KernelTables, RowChunks
from weft.profile.tables import View
from weft.target.code import CodeBook
from weft.target.process import Process

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make BPF maps")
RULE = Object(_native.BPF_OBJECT).size_of("weft_rule")


class Maps:
    """The maps of a recording, as KernelTables has them."""

    def __init__(self) -> None:
        self.tables = Map(MapKind.HASH, 4, 24, KernelTables.MOST)
        self.pages = Map(MapKind.ARRAY, 4, _native.BPF_PAGES * 4, 1, MMAPABLE)
        self.rows = RowChunks()
        self.rules = Map(MapKind.ARRAY, 4, _native.BPF_RULES * RULE, 1, MMAPABLE)
        self.caches = Map(MapKind.ARRAY, 4, 64, 2 * possible_cpus())  # as in mode alloc

    def make(self) -> KernelTables:
        return KernelTables(self.tables, self.pages, self.rows, self.rules, self.caches)

    def loaded(self, table: _native.UnwindTable) -> bool:
        """Whether the maps hold all of a table; what they hold of it is asserted."""
        try:
            place = struct.unpack("<6I", self.tables[struct.pack("<I", table.number)])
        except KeyError:
            return False
        first, pages, rows, rules = table.for_kernel()
        assert place[:2] == (first, len(pages) // 4 - 1)
        chunks = [self.rows.chunks[number][bytes(4)] for number in sorted(self.rows.chunks)]
        all_rows = b"".join(chunk[: _native.BPF_CHUNK * 4] for chunk in chunks)
        for held, begin, wanted, size in (
            (self.pages[bytes(4)], place[2], pages, 4),
            (all_rows, place[3], rows, 4),
            (self.rules[bytes(4)], place[4], rules, RULE),
        ):
            assert held[begin * size : begin * size + len(wanted)] == wanted
        return True


@pytest.fixture(scope="module")
def some_tables() -> list[_native.UnwindTable]:
    """Tables of this process's own libraries, the largest first."""
    code = CodeBook().map_of(Process(os.getpid()), within_s=60)
    tables = {table.number: table for table in code.tables}
    return sorted(tables.values(), key=lambda table: -len(table.for_kernel()[2]))


def test_what_is_not_in_use_makes_room(some_tables: list[_native.UnwindTable], monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN full maps WHEN a process has ended and another one comes THEN its tables are there, whole, and the ended
    one's are not; what the kernel remembers of rules is gone."""
    first, second, third = some_tables[0], *some_tables[-2:]
    rows = [len(table.for_kernel()[2]) // 4 for table in (first, second, third)]
    monkeypatch.setattr(KernelTables, "ROOM", (100, _native.BPF_PAGES, rows[0] + rows[1], _native.BPF_RULES))
    assert rows[1] + rows[2] < 0.75 * (rows[0] + rows[1]), "what is in use is to leave some room"
    maps = Maps()
    tables = maps.make()
    tables.load(1, [first])
    tables.load(2, [second])
    walks = [struct.pack("<I", walk) for walk in (0, 2 * possible_cpus() - 1)]
    for walk in walks:
        maps.caches[walk] = b"rules" * 12
    tables.load(3, [third])
    assert [maps.loaded(table) for table in (first, second, third)] == [True, True, False]
    assert tables.times_emptied == 0, "all are in use"
    tables.forget(1)
    tables.load(3, [third])
    assert [maps.loaded(table) for table in (first, second, third)] == [False, True, True]
    assert tables.times_emptied == 1
    assert [maps.caches[walk] for walk in walks] == [bytes(64)] * 2
    tables.load(4, [second, third])
    assert tables.times_emptied == 1


def test_a_table_that_is_too_large(some_tables: list[_native.UnwindTable], monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a process with a table that no map could hold WHEN others need room THEN they get it all the same."""
    huge, *_, old, new = some_tables
    rows = {table.number: len(table.for_kernel()[2]) // 4 for table in (huge, old, new)}
    room = int(1.5 * max(rows[old.number], rows[new.number])) + 1
    assert rows[huge.number] > room > rows[new.number] / 0.75
    assert rows[old.number] + rows[new.number] > room
    monkeypatch.setattr(KernelTables, "ROOM", (100, _native.BPF_PAGES, room, _native.BPF_RULES))
    maps = Maps()
    tables = maps.make()
    tables.load(1, [huge])
    tables.load(2, [old])
    tables.forget(2)
    tables.load(3, [new])
    assert [maps.loaded(table) for table in (huge, old, new)] == [False, False, True]


def test_rows_beyond_one_chunk(some_tables: list[_native.UnwindTable], monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN tables that take more than a chunk THEN each has its rows, and those that a chunk begins with lie behind
    the one before it, too, so that no page's rows are apart."""
    monkeypatch.setattr(_native, "BPF_CHUNK", 1 << 14)
    maps = Maps()
    tables = maps.make()
    tables.load(1, some_tables)
    assert all(maps.loaded(table) for table in some_tables)
    rows = [maps.rows.chunks[number][bytes(4)] for number in range(len(maps.rows.chunks))]
    assert len(rows) > 2
    for before, after in pairwise(rows):
        assert before[_native.BPF_CHUNK * 4 :] == after[: _native.BPF_OVERLAP * 4]


def test_no_memory_for_more(some_tables: list[_native.UnwindTable], monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a kernel without memory for another chunk THEN tables that need it are not loaded, and smaller ones are."""
    monkeypatch.setattr(_native, "BPF_CHUNK", 1 << 14)
    real = RowChunks.chunk

    def chunk(self: RowChunks, number: int) -> Map:
        if number > 0:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return real(self, number)

    monkeypatch.setattr(RowChunks, "chunk", chunk)
    large, small = some_tables[0], some_tables[-1]
    assert len(large.for_kernel()[2]) // 4 > _native.BPF_CHUNK
    maps = Maps()
    maps.make().load(1, [large, small])
    assert [maps.loaded(table) for table in (large, small)] == [False, True]


BUSY = "import time\ndef lives():\n    while True: sum(range(1000))\nlives()"
SHORT = "import time, {}\nwhile time.process_time() < 1.5: sum(range(100))"
MODULES = ["ssl", "sqlite3", "decimal", "ctypes", "lzma", "unicodedata"]


@pytest.mark.serial
def test_a_recording_with_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN room for the libraries of two or three processes WHEN many come and go THEN the stacks of one that stays
    are whole and proven throughout."""
    made: list[KernelTables] = []
    real = KernelTables.__init__

    def make(self: KernelTables, *maps: Map) -> None:
        real(self, *maps)
        made.append(self)

    monkeypatch.setattr(KernelTables, "__init__", make)
    shell = "; ".join(f"{sys.executable} -c '{SHORT.format(module)}'" for module in MODULES)
    path = tmp_path / "x.weft"
    command = f"{sys.executable} -c '{BUSY}' & busy=$!; {shell}; kill $busy"
    with subprocess.Popen(["sh", "-c", f"read start; {command}"], stdin=subprocess.PIPE) as target:
        assert target.stdin is not None
        target.stdin.write(b"go\n")
        target.stdin.flush()
        monkeypatch.setattr(KernelTables, "ROOM", (60, _native.BPF_PAGES, 250_000, _native.BPF_RULES))
        record_process(target.pid, path, Options(500, LIMIT_S, Mode.CPU, Collector.BPF, subprocesses=True))
    with Capture(path) as capture:
        profile = Profile.from_capture(capture, View(all_frames=True))
        account = capture.account()
    lives = Counter[bool]()
    for total in profile.totals:
        names = [profile.frames[frame].function for frame in profile.stacks.path(total.stack)]
        lives["_start" in names or "__libc_start_main" in names] += ("lives" in names) * total.ticks
    assert made[0].times_emptied >= 1
    assert account["seams_open"] == 0
    assert lives[True] > 500, lives
    assert lives[False] == 0
