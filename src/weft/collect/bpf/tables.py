"""Unwind tables in the kernel's maps (bpf/abi.h)."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from contextlib import suppress

from weft import _native
from weft.collect.bpf.kernel import MMAPABLE, Map, MapKind, wait_for_programs

_FIRST: tuple[int, ...] = (0, 0, 0, 1)  # entries of the maps; rule 0: there is none
_IN_USE = 0.75  # of the room; with more than that in use, it would be full again soon


class RowChunks:
    """The rows of all tables, in chunks: maps of one value each, which are made when they are written to. OSError.

    wanted: there will be rows; else no memory is kept for them.
    """

    def __init__(self, *, wanted: bool = True) -> None:
        self._bytes = (_native.BPF_CHUNK + _native.BPF_OVERLAP) * 4 if wanted else 4
        self._first = self._new()  # a map of maps cannot be made without one of these
        most = _native.BPF_ROWS // _native.BPF_CHUNK if wanted else 1
        self.map = Map(MapKind.ARRAY_OF_MAPS, 4, 4, most, like=self._first)
        self.chunks: dict[int, Map] = {}

    def _new(self) -> Map:
        return Map(MapKind.ARRAY, 4, self._bytes, 1, MMAPABLE)

    def chunk(self, number: int) -> Map:
        """Return a chunk. To make one takes some 10 ms: the kernel waits for programs that may have missed it."""
        if number not in self.chunks:
            made = self._new() if number else self._first
            self.map[struct.pack("<I", number)] = struct.pack("<I", made.descriptor)
            self.chunks[number] = made
        return self.chunks[number]

    def write(self, row: int, rows: bytes) -> None:
        """Write rows, from that number on. Those that a chunk begins with lie behind the one before it, too."""
        end = row + len(rows) // 4
        for number in range(max(0, row - _native.BPF_OVERLAP) // _native.BPF_CHUNK, -(-end // _native.BPF_CHUNK)):
            begin = number * _native.BPF_CHUNK
            first, last = max(row, begin), min(end, begin + _native.BPF_CHUNK + _native.BPF_OVERLAP)
            self.chunk(number).write((first - begin) * 4, rows[(first - row) * 4 : (last - row) * 4])

    def close(self) -> None:
        """Take them out of the kernel."""
        for each in (self.map, self._first, *self.chunks.values()):
            each.close()


class KernelTables:
    """Where the tables of modules lie in the maps.

    When these are full, they are emptied, and the tables of the processes that still live are loaded anew. What finds
    no room is unwound in user mode, from a copy of the stack.
    """

    MOST = 16384
    # Entries of each map: tables, pages, rows, rules.
    ROOM = (MOST, _native.BPF_PAGES, _native.BPF_ROWS, _native.BPF_RULES)

    def __init__(self, tables: Map, pages: Map, rows: RowChunks, rules: Map, caches: Map) -> None:
        self._tables = tables
        self._pages = pages
        self._rows = rows
        self._rules = rules
        self._rule_bytes = rules.bytes // _native.BPF_RULES
        self._caches = caches
        self._loaded: set[int] = set()
        self._next = _FIRST
        self._sizes: dict[int, tuple[int, ...]] = {}  # of tables that are in use, as in ROOM
        self._used: dict[int, list[_native.UnwindTable]] = {}  # by process
        self.times_emptied = 0

    def load(self, process: int, tables: Iterable[_native.UnwindTable]) -> None:
        """Load the tables of a process, which are all that it uses from now on."""
        self._used[process] = used = list(tables)
        without_room = [table for table in used if not self._load(table)]
        # One that is too large for the maps would be so again.
        if any(self._has_room(self._sizes[table.number], _FIRST) for table in without_room) and self._is_worth_it():
            self._start_over()

    def forget(self, process: int) -> None:
        """A process has ended: its tables are not in use, or only by others."""
        self._used.pop(process, None)

    def _load(self, table: _native.UnwindTable) -> bool:
        """Load a table if there is room."""
        if table.number in self._loaded:
            return True
        if (known := self._sizes.get(table.number)) and not self._has_room(known):
            return False
        first, pages, rows, rules = table.for_kernel()
        sizes = 1, len(pages) // 4, len(rows) // 4, len(rules) // self._rule_bytes
        self._sizes[table.number] = sizes
        if not self._has_room(sizes):
            return False
        _, page, row, rule = self._next
        try:
            self._rows.write(row, rows)
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            return False  # the kernel has no memory for another chunk
        self._next = tuple(begin + size for begin, size in zip(self._next, sizes, strict=True))
        self._pages.write(page * 4, pages)
        self._rules.write(rule * self._rule_bytes, rules)
        place = struct.pack("<6I", first, sizes[1] - 1, page, row, rule, 0)
        self._tables[struct.pack("<I", table.number)] = place
        self._loaded.add(table.number)
        return True

    def _has_room(self, sizes: tuple[int, ...], begin: tuple[int, ...] | None = None) -> bool:
        return all(at + size <= room for at, size, room in zip(begin or self._next, sizes, self.ROOM, strict=True))

    def _is_worth_it(self) -> bool:
        used = {table.number for tables in self._used.values() for table in tables}
        self._sizes = {number: sizes for number, sizes in self._sizes.items() if number in used}
        fitting = [sizes for sizes in self._sizes.values() if self._has_room(sizes, _FIRST)]
        totals = map(sum, zip(*fitting, strict=True))
        return all(total <= _IN_USE * room for total, room in zip(totals, self.ROOM, strict=True))

    def _start_over(self) -> None:
        """Load what is in use, and nothing else.

        Rules that the kernel remembers of code are of the old tables. So are those that a walk has in hand, and may
        yet remember: nothing is overwritten before the last of these walks is over.
        """
        if not wait_for_programs():
            return  # nor could it be waited for below
        for number in self._loaded:
            with suppress(FileNotFoundError):
                del self._tables[struct.pack("<I", number)]
        self._forget_rules()
        wait_for_programs()
        self._forget_rules()
        self._loaded.clear()
        self._next = _FIRST
        self.times_emptied += 1
        for tables in self._used.values():
            for table in tables:
                self._load(table)

    def _forget_rules(self) -> None:
        for walk in range(self._caches.entries):  # of those that there may be at one time: one or two on each CPU
            self._caches[struct.pack("<I", walk)] = b""
