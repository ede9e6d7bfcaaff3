"""Just enough ELF to find the runtime: images as the target has them mapped, and files.

Both are hostile: every count and offset is bounded before it is used. Only 64-bit little-endian is read.
Source of the forms: the System V ABI (gABI), elf.h, and the GNU hash section as glibc's dl-lookup.c reads it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from weft.errors import MemoryReadError
from weft.target.maps import Module
from weft.target.memory import Memory, read_u32, read_u64

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_PF_W = 2
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5
_SHF_EXECINSTR = 4
_SHT_NOBITS, _SHT_SYMTAB, _SHT_DYNSYM = 8, 2, 11
_OBJECTS, _FUNCTIONS = (1,), (2, 10)  # STT_OBJECT; STT_FUNC, STT_GNU_IFUNC
_R_X86_64_RELATIVE = 8
_NT_GNU_BUILD_ID = 3

_SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_RELOCATION = struct.Struct("<QQq")  # slot, symbol << 32 | type, addend
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")  # type, flags, offset, vaddr, paddr, filesz, memsz, align
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, addr, offset, size, link, info, align, entsize

_MAX_HEADERS = 1024
_MAX_SYMBOL_CHAIN = 4096
_MAX_TABLE = 256 << 20  # bytes of a symbol or string table; CPython's own have about 1 MB


class ElfError(Exception):
    """The bytes are no ELF image that can be read."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One program header; `address` is as linked."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    size: int


def _program_headers(header: bytes, table: bytes) -> list[Segment]:
    count = min(int.from_bytes(header[56:58], "little"), _MAX_HEADERS, len(table) // _PROGRAM_HEADER.size)
    return [
        Segment(kind, flags, offset, address, file_size, size)
        for kind, flags, offset, address, _, file_size, size, _ in _PROGRAM_HEADER.iter_unpack(
            table[: count * _PROGRAM_HEADER.size]
        )
    ]


def _check_header(header: bytes) -> None:
    if header[:4] != b"\x7fELF":
        raise ElfError("no ELF header")
    if header[4:6] != b"\x02\x01":
        raise ElfError("not 64-bit little-endian")
    if int.from_bytes(header[54:56], "little") != _PROGRAM_HEADER.size:
        raise ElfError("program headers of an unknown size")


def _build_id(notes: bytes) -> str | None:
    """Return the GNU build-id in the bytes of a note segment or section, in hex."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name_end = at + 12 + (name_size + 3 & ~3)
        if kind == _NT_GNU_BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0" and name_end + size <= len(notes):
            return notes[name_end : name_end + size].hex()
        at = name_end + (size + 3 & ~3)
    return None


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
        _check_header(self.header)
        table = int.from_bytes(self.header[32:40], "little")
        count = min(int.from_bytes(self.header[56:58], "little"), _MAX_HEADERS)
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
                    found = _build_id(self.memory.read(self.bias + segment.address, segment.size))
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
            symbol = self.memory.read(dynamic[_DT_SYMTAB] + index * _SYMBOL.size, _SYMBOL.size)
            at, _, _, section, value, _ = _SYMBOL.unpack(symbol)
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


@dataclass(frozen=True, slots=True)
class Section:
    """One section header; `address` is as linked, 0 if it is not loaded."""

    name: str
    type: int
    address: int
    offset: int
    size: int
    link: int
    is_code: bool


@dataclass(frozen=True, slots=True)
class DebugLink:
    """What .gnu_debuglink tells of the file with the debug information."""

    name: str
    checksum: int  # CRC-32 of its bytes


class ElfFile:
    """An ELF file on disk, for what is not mapped: sections and the full symbol table. Closes with the `with` block."""

    def __init__(self, path: str) -> None:
        """Open it. OSError or ElfError if that cannot be."""
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.header = self.read(0, 64)
            _check_header(self.header)
            self.sections = self._read_sections()
        except ElfError:
            self.close()
            raise

    @classmethod
    def of_bytes(cls, name: str, data: bytes) -> ElfFile:
        """Open an ELF file that is in no file system. OSError or ElfError if that cannot be."""
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            return cls(f"/proc/self/fd/{fd}")

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return os.fstat(self._fd).st_size

    @property
    def own_path(self) -> str:
        """A path that leads to this very file as long as it is open."""
        return f"/proc/self/fd/{self._fd}"

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def __enter__(self) -> ElfFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes, or raise ElfError."""
        if not 0 <= offset < 1 << 62 or not 0 <= size <= _MAX_TABLE:
            raise ElfError(f"{size} bytes at {offset}: out of bounds")
        try:
            data = os.pread(self._fd, size, offset)
        except OSError as error:
            raise ElfError(str(error)) from None
        if len(data) != size:
            raise ElfError("truncated")
        return data

    def _read_sections(self) -> list[Section]:
        table = int.from_bytes(self.header[40:48], "little")
        size, count, names_index = struct.unpack("<HHH", self.header[58:64])
        if not table or not count:
            return []
        if size != _SECTION_HEADER.size or count > _MAX_HEADERS or names_index >= count:
            raise ElfError("section headers of an unknown form")
        raw = list(_SECTION_HEADER.iter_unpack(self.read(table, count * size)))
        names = self.read(raw[names_index][4], min(raw[names_index][5], 1 << 20))
        return [
            Section(
                names[name : names.find(b"\0", name)].decode("latin-1"),
                kind,
                address,
                offset,
                length,
                link,
                bool(flags & _SHF_EXECINSTR),
            )
            for name, kind, flags, address, offset, length, link, *_ in raw
        ]

    def section(self, name: str) -> Section | None:
        """Return the first section of this name that has bytes in the file."""
        return next((s for s in self.sections if s.name == name and s.type != _SHT_NOBITS), None)

    def contents(self, name: str) -> bytes | None:
        """Return the bytes of a section as they are stored; None if there is none."""
        section = self.section(name)
        return self.read(section.offset, section.size) if section else None

    @property
    def build_id(self) -> str | None:
        """The GNU build-id, in hex."""
        return _build_id(self.contents(".note.gnu.build-id") or b"")

    @property
    def debug_link(self) -> DebugLink | None:
        """The file that holds the DWARF, from .gnu_debuglink: its name, zeros up to a multiple of 4, its checksum."""
        data = self.contents(".gnu_debuglink") or b""
        name = data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
        at = data.find(b"\0") + 4 & ~3
        if not name or "/" in name or len(data) < at + 4:
            return None
        return DebugLink(name, int.from_bytes(data[at : at + 4], "little"))

    def symbols(self, names: tuple[str, ...]) -> dict[str, int]:
        """Return the linked addresses of those of the names that .symtab defines."""
        found: dict[str, int] = {}
        for name, address, _ in self._named(_SHT_SYMTAB, names):
            found.setdefault(name, address)
        return found

    def ranges_of(self, names: tuple[str, ...]) -> list[tuple[int, int]]:
        """Return the linked addresses [begin, end) of functions with these names, from .symtab or else .dynsym."""
        for kind in (_SHT_SYMTAB, _SHT_DYNSYM):
            if found := {(address, address + size) for _, address, size in self._named(kind, names) if size}:
                return sorted(found)
        return []

    def functions(self) -> list[tuple[int, int, bytes]]:
        """Return (address, size, name) of all functions that .symtab and .dynsym define."""
        return [*self._defined(_SHT_SYMTAB, _FUNCTIONS), *self._defined(_SHT_DYNSYM, _FUNCTIONS)]

    def function_ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (address, size) of the same, without their names, whose reading takes 150 MB for libtorch."""
        for kind in (_SHT_SYMTAB, _SHT_DYNSYM):
            for _, info, _, section, value, size in _SYMBOL.iter_unpack(self._symbols(kind)[0]):
                if section and info & 15 in _FUNCTIONS:
                    yield self._placed(value, section), size

    def data_symbols(self) -> list[tuple[int, bytes]]:
        """Return (address, name) of the data that .dynsym defines."""
        return [(address, name) for address, _, name in self._defined(_SHT_DYNSYM, _OBJECTS)]

    def imports(self) -> dict[int, bytes]:
        """Return the names of symbols that the dynamic linker looks up, by the linked address of the slot for each."""
        text, symbols = self._table(_SHT_DYNSYM)
        found = {}
        for slot, info, _ in self._relocations():
            at = (info >> 32) * _SYMBOL.size
            if 0 < at <= len(symbols) - _SYMBOL.size:
                start = _SYMBOL.unpack_from(symbols, at)[0]
                found[slot] = text[start : text.find(b"\0", start)]
        return found

    def relative_relocations(self) -> Iterator[tuple[int, int]]:
        """Yield (slot, linked address that it will point at) of what only the bias is added to."""
        for slot, info, addend in self._relocations():
            if info == _R_X86_64_RELATIVE:
                yield slot, addend

    def _relocations(self) -> Iterator[tuple[int, int, int]]:
        for name in (".rela.plt", ".rela.dyn"):
            table = self.contents(name) or b""
            yield from _RELOCATION.iter_unpack(table[: len(table) // _RELOCATION.size * _RELOCATION.size])

    def _defined(self, kind: int, types: tuple[int, ...]) -> Iterator[tuple[int, int, bytes]]:
        """Yield (address, size, name) of the symbols of some types that a table defines."""
        text, symbols = self._table(kind)
        for at, info, _, section, value, size in _SYMBOL.iter_unpack(symbols):
            if section and info & 15 in types and at < len(text):
                yield self._placed(value, section), size, text[at : text.find(b"\0", at)]

    def _placed(self, value: int, _section: int) -> int:
        """Return the address that a symbol's value means: it is one, but in relocatable objects."""
        return value

    def _named(self, kind: int, names: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
        """Yield (name, address, size) of those that a table of symbols defines."""
        text, symbols = self._table(kind)
        # A name is found in the string table first, so that the symbols need only be compared by number.
        wanted: dict[int, str] = {}
        for name in names:
            key = name.encode() + b"\0"
            at = text.find(key)
            while at >= 0 and len(wanted) < _MAX_HEADERS:  # the linker also merges a name into the tail of a longer one
                wanted[at] = name
                at = text.find(key, at + 1)
        for at, _, _, section, value, size in _SYMBOL.iter_unpack(symbols) if wanted else ():
            if at in wanted and section:
                yield wanted[at], value, size

    def _table(self, kind: int) -> tuple[bytes, bytes]:
        """Return the strings and the symbols of the first table of this kind; empty if there is none."""
        symbols, strings = self._symbols(kind)
        return (self.read(strings.offset, strings.size), symbols) if strings else (b"", b"")

    def _symbols(self, kind: int) -> tuple[bytes, Section | None]:
        """Return the symbols of the first table of this kind, and the section with their names."""
        table = next((s for s in self.sections if s.type == kind), None)
        if table is None or table.link >= len(self.sections):
            return b"", None
        return self.read(table.offset, table.size - table.size % _SYMBOL.size), self.sections[table.link]
