"""ELF images as the target has them mapped: enough to find the runtime.

They are hostile: every count and offset is bounded before it is used. Only 64-bit little-endian is read.
Source of the forms: the System V ABI (gABI), elf.h, and the GNU hash section as glibc's dl-lookup.c reads it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from weft.errors import MemoryReadError
from weft.target.elf import MAX_HEADERS, SYMBOL, ElfError, build_id_of, check_header
from weft.target.maps import Module
from weft.target.memory import Memory, read_u32, read_u64

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_PF_W = 2
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5

_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")  # type, flags, offset, vaddr, paddr, filesz, memsz, align
_MAX_SYMBOL_CHAIN = 4096


class Segment(NamedTuple):
    """One program header; `address` is as linked."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    size: int


def _program_headers(header: bytes, table: bytes) -> list[Segment]:
    count = min(int.from_bytes(header[56:58], "little"), MAX_HEADERS, len(table) // _PROGRAM_HEADER.size)
    return [
        Segment(kind, flags, offset, address, file_size, size)
        for kind, flags, offset, address, _, file_size, size, _ in _PROGRAM_HEADER.iter_unpack(
            table[: count * _PROGRAM_HEADER.size]
        )
    ]


class Image:
    """A module as it is mapped in the target. Needs no file, so it serves deleted and foreign ones as well."""

    def __init__(self, memory: Memory, module: Module) -> None:
        """Read the headers. ElfError or MemoryReadError if the module is no ELF image mapped to run."""
        self.memory = memory
        self.module = module
        first = module.mappings[0]
        if first.offset != 0:
            raise ElfError("the ELF header is not mapped")
        self.header = memory.read(first.start, 64)
        check_header(self.header)
        if int.from_bytes(self.header[54:56], "little") != _PROGRAM_HEADER.size:
            raise ElfError("program headers of an unknown size")
        table = int.from_bytes(self.header[32:40], "little")
        count = min(int.from_bytes(self.header[56:58], "little"), MAX_HEADERS)
        if table + count * _PROGRAM_HEADER.size > first.end - first.start:
            raise ElfError("the program headers are not mapped")
        self.segments = _program_headers(self.header, memory.read(first.start + table, count * _PROGRAM_HEADER.size))
        if any(s.address + s.size >= 1 << 63 for s in self.segments):
            raise ElfError("segments beyond all addresses")
        loads = [s for s in self.segments if s.type == _PT_LOAD]
        base = next((s for s in loads if s.offset < 4096), None)
        if base is None:
            raise ElfError("no segment begins the file")
        self.bias = first.start - (base.address - base.offset)
        if not any(m.perms[2:3] == "x" for m in module.mappings) and not any(m.writable for m in module.mappings):
            raise ElfError("mapped as data, not to run")

    @property
    def build_id(self) -> str | None:
        """The GNU build-id, in hex."""
        for segment in self.segments:
            if segment.type == _PT_NOTE and segment.size <= 1 << 16:
                try:
                    found = build_id_of(self.memory.read(self.bias + segment.address, segment.size))
                except MemoryReadError:
                    continue
                if found:
                    return found
        return None

    def writable_ranges(self) -> list[tuple[int, int]]:
        """Return the addresses [start, end) of the writable segments: .data and .bss among them."""
        return [
            (self.bias + s.address, self.bias + s.address + s.size)
            for s in self.segments
            if s.type == _PT_LOAD and s.flags & _PF_W and s.size
        ]

    def symbols(self, names: tuple[str, ...]) -> dict[str, int]:
        """Return the addresses of those of the names that the dynamic symbol table defines."""
        try:
            dynamic = self._dynamic()
            if _DT_SYMTAB not in dynamic or _DT_STRTAB not in dynamic:
                return {}
            found = {}
            for name in names:
                address = self._lookup(dynamic, name.encode())
                if address is not None:
                    found[name] = address
        except MemoryReadError:
            return {}
        return found

    def _dynamic(self) -> dict[int, int]:
        """Return the dynamic section: tag -> address. glibc relocates it in place, musl does not."""
        segment = next((s for s in self.segments if s.type == _PT_DYNAMIC), None)
        if segment is None or segment.size > 1 << 16:
            return {}
        data = self.memory.read(self.bias + segment.address, segment.size & ~15)
        found = {}
        for tag, value in struct.iter_unpack("<QQ", data):
            if tag == 0:
                break
            if tag in (_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH):
                found[tag] = value if value >= self.module.start else value + self.bias
        return found

    def _lookup(self, dynamic: dict[int, int], name: bytes) -> int | None:
        if _DT_GNU_HASH in dynamic:
            candidates = self._gnu_chain(dynamic[_DT_GNU_HASH], name)
        elif _DT_HASH in dynamic:
            candidates = self._sysv_chain(dynamic[_DT_HASH], name)
        else:
            return None
        for index in candidates:
            symbol = self.memory.read(dynamic[_DT_SYMTAB] + index * SYMBOL.size, SYMBOL.size)
            at, _, _, section, value, _ = SYMBOL.unpack(symbol)
            if section and self.memory.read(dynamic[_DT_STRTAB] + at, len(name) + 1) == name + b"\0":
                return self.bias + int(value)
        return None

    def _gnu_chain(self, table: int, name: bytes) -> list[int]:
        """Return the indexes of the symbols that have the hash of the name."""
        hashed = 5381
        for byte in name:
            hashed = (hashed * 33 + byte) & 0xFFFFFFFF
        buckets, first, bloom_size, bloom_shift = struct.unpack("<IIII", self.memory.read(table, 16))
        if not buckets or not bloom_size:
            return []
        word = read_u64(self.memory, table + 16 + hashed // 64 % bloom_size * 8)
        if not (word >> hashed % 64) & (word >> (hashed >> (bloom_shift & 31)) % 64) & 1:
            return []
        at_buckets = table + 16 + bloom_size * 8
        index = read_u32(self.memory, at_buckets + hashed % buckets * 4)
        found = []
        for _ in range(_MAX_SYMBOL_CHAIN if index >= first else 0):
            entry = read_u32(self.memory, at_buckets + buckets * 4 + (index - first) * 4)
            if entry | 1 == hashed | 1:
                found.append(index)
            if entry & 1:
                break
            index += 1
        return found

    def _sysv_chain(self, table: int, name: bytes) -> list[int]:
        """Return the indexes of the symbols in the bucket of the name."""
        hashed = 0
        for byte in name:
            hashed = (hashed << 4) + byte & 0xFFFFFFFF
            high = hashed & 0xF0000000
            hashed = (hashed ^ high >> 24) & ~high
        buckets, chains = struct.unpack("<II", self.memory.read(table, 8))
        if not buckets:
            return []
        index = read_u32(self.memory, table + 8 + hashed % buckets * 4)
        found: list[int] = []
        while 0 < index < chains and len(found) < _MAX_SYMBOL_CHAIN:
            found.append(index)
            index = read_u32(self.memory, table + 8 + (buckets + index) * 4)
        return found
