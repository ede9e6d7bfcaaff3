"""Unwind tables in the kernel's maps (bpf/abi.h)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from weft import _native
from weft.collect.bpf.kernel import Map


class KernelTables:
    """Where the tables of modules lie in the maps.

    What finds no room is unwound in user mode, from a copy of the stack.
    """

    MOST = 16384

    def __init__(self, tables: Map, pages: Map, rows: Map, rules: Map) -> None:
        self._tables = tables
        self._pages = pages.mapped()
        self._rows = rows.mapped()
        self._rules = rules.mapped()
        self._rule_bytes = rules.bytes // _native.BPF_RULES
        self._next_page = 0
        self._next_row = 0
        self._next_rule = 1  # 0: there is none
        self._loaded: set[int] = set()

    def load(self, tables: Iterable[_native.UnwindTable]) -> None:
        """Load those that are new."""
        for table in tables:
            if table.number not in self._loaded and len(self._loaded) < self.MOST:
                self._loaded.add(table.number)
                self._load(table)

    def _load(self, table: _native.UnwindTable) -> None:
        first, pages, rows, rules = table.for_kernel()
        size = self._rule_bytes
        page, row, rule = self._next_page, self._next_row, self._next_rule
        ends = page + len(pages) // 4, row + len(rows) // 4, rule + len(rules) // size
        if ends[0] > _native.BPF_PAGES or ends[1] > _native.BPF_ROWS or ends[2] > _native.BPF_RULES:
            return
        self._pages[page * 4 : ends[0] * 4] = pages
        self._rows[row * 4 : ends[1] * 4] = rows
        self._rules[rule * size : ends[2] * size] = rules
        self._next_page, self._next_row, self._next_rule = ends
        place = struct.pack("<6I", first, len(pages) // 4 - 1, page, row, rule, 0)
        self._tables[struct.pack("<I", table.number)] = place
