"""Just enough ELF: sections, symbols and relocations of files.

They are hostile: every count and offset is bounded before it is used. Only 64-bit little-endian is read.
Source of the forms: the System V ABI (gABI) and elf.h.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from weft.target.opening import open_file

_ET_REL = 1
_SHF_EXECINSTR = 4
_SHT_NOBITS, _SHT_SYMTAB, _SHT_DYNSYM = 8, 2, 11
_OBJECTS, _FUNCTIONS = (1,), (2, 10)  # STT_OBJECT; STT_FUNC, STT_GNU_IFUNC
_R_X86_64_RELATIVE, _R_X86_64_DTPMOD64 = 8, 16
_NT_GNU_BUILD_ID = 3

SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_RELOCATION = struct.Struct("<QQq")  # slot, symbol << 32 | type, addend
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, addr, offset, size, link, info, align, entsize

LAST_ADDRESS = (1 << 64) - 1
MAX_HEADERS = 1024
_MAX_TABLE = 256 << 20  # bytes of a symbol or string table; CPython's own have about 1 MB
_MAX_ENTRIES = 1 << 22  # of a table; libtorch_cpu has some 500,000 symbols
_MAX_NAME = 4096  # bytes; longer ones are cut
_PART = 1 << 18  # bytes of a table that are read at a time, where it is gone through once
# Of names: so many bytes, and so many times the string table that they come from, in which they may overlap.
_MOST_NAMES, _MOST_SHARED = 1 << 16, 8


# Tells of the bytes of a symbol table the indices of the entries that are wanted.
Wanted = Callable[[bytes], Iterable[int]]


class ElfError(Exception):
    """The bytes are no ELF image that can be read."""


def check_header(header: bytes) -> None:
    """ElfError if an image or file that begins so is not to be read."""
    if header[:4] != b"\x7fELF":
        raise ElfError("no ELF header")
    if header[4:6] != b"\x02\x01":
        raise ElfError("not 64-bit little-endian")


def build_id_of(notes: bytes) -> str | None:
    """Return the GNU build-id in the bytes of a note segment or section, in hex."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name_end = at + 12 + (name_size + 3 & ~3)
        if kind == _NT_GNU_BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0" and name_end + size <= len(notes):
            return notes[name_end : name_end + size].hex()
        at = name_end + (size + 3 & ~3)
    return None


class Section(NamedTuple):
    """One section header; `address` is as linked, 0 if it is not loaded."""

    name: str
    type: int
    address: int
    offset: int
    size: int
    link: int
    is_code: bool


class DebugLink(NamedTuple):
    """What .gnu_debuglink tells of the file with the debug information."""

    name: str
    checksum: int  # CRC-32 of its bytes


class SharedLink(NamedTuple):
    """What .gnu_debugaltlink tells of the file into which dwz has moved what several debug files share."""

    path: str  # absolute, or from the folder of the file that has the link
    build_id: str


class _Names:
    """The names in a string table. As they may overlap, millions of symbols can tell far more than it holds."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._left = _MOST_NAMES + _MOST_SHARED * len(text)

    def at(self, start: int) -> bytes:
        """Return the name that begins there. ElfError once too much was told."""
        end = self._text.find(b"\0", start, start + _MAX_NAME)
        name = self._text[start : end if end >= 0 else start + _MAX_NAME]
        self._left -= len(name)
        if self._left < 0:
            raise ElfError("its names overlap beyond measure")
        return name


class ElfFile:
    """An ELF file on disk, for what is not mapped: sections and the full symbol table. Closes with the `with` block."""

    def __init__(self, path: str) -> None:
        """Open it. OSError or ElfError if that cannot be."""
        self.path = path
        self._fd = open_file(path)
        try:
            self.header = self.read(0, 64)
            check_header(self.header)
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

    def fileno(self) -> int:
        """Return its file descriptor."""
        return self._fd

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
        if size != _SECTION_HEADER.size or count > MAX_HEADERS or names_index >= count:
            raise ElfError("section headers of an unknown form")
        raw = list(_SECTION_HEADER.iter_unpack(self.read(table, count * size)))
        names = _Names(self.read(raw[names_index][4], min(raw[names_index][5], 1 << 20)))
        return [
            Section(
                names.at(name).decode("latin-1"),
                kind,
                address,
                offset,
                length,
                link,
                bool(flags & _SHF_EXECINSTR),
            )
            for name, kind, flags, address, offset, length, link, *_ in raw
        ]

    @property
    def is_relocatable(self) -> bool:
        """Whether it is still to be linked. If a JIT compiler has loaded it, its sections tell where."""
        return int.from_bytes(self.header[16:18], "little") == _ET_REL

    @property
    def entry(self) -> int | None:
        """The address of the instruction that a program begins with; None if it is no program."""
        return int.from_bytes(self.header[24:32], "little") or None

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
        return build_id_of(self.contents(".note.gnu.build-id") or b"")

    @property
    def debug_link(self) -> DebugLink | None:
        """The file that holds the DWARF, from .gnu_debuglink: its name, zeros up to a multiple of 4, its checksum."""
        data = self.contents(".gnu_debuglink") or b""
        name = data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
        at = data.find(b"\0") + 4 & ~3
        if not name or "/" in name or len(data) < at + 4:
            return None
        return DebugLink(name, int.from_bytes(data[at : at + 4], "little"))

    @property
    def shared_link(self) -> SharedLink | None:
        """The file that holds what dwz has moved from this one, from .gnu_debugaltlink: its path, its build-id."""
        path, end, build_id = (self.contents(".gnu_debugaltlink") or b"").partition(b"\0")
        return SharedLink(path.decode("utf-8", "surrogateescape"), build_id.hex()) if end and build_id else None

    def symbols(self, names: tuple[str, ...]) -> dict[str, int]:
        """Return the linked addresses of those of the names that .symtab, or else .dynsym, defines."""
        return {name: ranges[0][0] for name, ranges in self.ranges_of(names).items()}

    def ranges_of(self, names: tuple[str, ...]) -> dict[str, list[tuple[int, int]]]:
        """Return the linked addresses [begin, end) of all that has these names, from .symtab or else .dynsym."""
        found: dict[str, list[tuple[int, int]]] = {}
        for kind in (_SHT_SYMTAB, _SHT_DYNSYM):
            missing = tuple(name for name in names if name not in found)
            for name, address, size in self._named(kind, missing) if missing else ():
                found.setdefault(name, []).append((address, address + size))
        return found

    def functions(self) -> list[tuple[int, int, bytes]]:
        """Return (address, size, name) of all functions that .symtab and .dynsym define."""
        return [*self._defined(_SHT_SYMTAB, _FUNCTIONS), *self._defined(_SHT_DYNSYM, _FUNCTIONS)]

    def function_symbols(self, wanted: Wanted | None = None) -> Iterator[tuple[int, int, int]]:
        """Yield (address, size, place of the name in the file) of the same, or of those of them that are wanted.

        There may be millions: of libtorch's the names alone take 150 MB.
        """
        for kind in (_SHT_SYMTAB, _SHT_DYNSYM):
            symbols, strings = self._symbols(kind)
            names, limit = (strings.offset, strings.size) if strings else (0, 0)
            for part in self._parts(symbols, SYMBOL):
                entries = self._all_placed(part) if self.is_relocatable else part
                for index in wanted(entries) if wanted else range(len(entries) // SYMBOL.size):
                    at, info, _, section, address, size = SYMBOL.unpack_from(entries, index * SYMBOL.size)
                    if section and info & 15 in _FUNCTIONS and at < limit:
                        yield address, size, names + at

    def name_at(self, place: int) -> bytes:
        """Return the name that begins at a place in the file. ElfError."""
        return self.read(place, min(_MAX_NAME, self.size - place)).partition(b"\0")[0]

    def data_symbols(self) -> list[tuple[int, bytes]]:
        """Return (address, name) of the data that .dynsym defines."""
        return [(address, name) for address, _, name in self._defined(_SHT_DYNSYM, _OBJECTS)]

    def imports(self) -> dict[int, int]:
        """Return the places, for name_at(), of the names of symbols that the dynamic linker looks up, by the linked
        address of the slot for each.
        """
        symbols, strings = self._symbols(_SHT_DYNSYM)
        found = {}
        places = [strings.offset + at for at, *_ in self._entries(symbols, SYMBOL)] if strings else []
        for slot, info, _ in self._relocations() if places else ():
            if 0 < info >> 32 < len(places):
                found[slot] = places[info >> 32]
        return found

    def relative_relocations(self) -> Iterator[tuple[int, int]]:
        """Yield (slot, linked address that it will point at) of what only the bias is added to."""
        for slot, info, addend in self._relocations():
            if info == _R_X86_64_RELATIVE:
                yield slot, addend

    def own_storage_slots(self) -> Iterator[int]:
        """Yield the linked addresses of words that will tell the number of this file's own thread-local storage."""
        for part in self._relocation_parts():
            words = memoryview(part).cast("Q")  # three of each; of tens of thousands one is looked for
            for index, info in enumerate(words[1::3].tolist()):
                if info == _R_X86_64_DTPMOD64:  # of no symbol
                    yield words[3 * index]

    def _relocations(self) -> Iterator[tuple[int, int, int]]:
        for part in self._relocation_parts():
            yield from _RELOCATION.iter_unpack(part)

    def _relocation_parts(self) -> Iterator[bytes]:
        for name in (".rela.plt", ".rela.dyn"):
            yield from self._parts(self.section(name), _RELOCATION)

    def _entries(self, table: Section | None, entry: struct.Struct) -> Iterator[Any]:
        """Yield the whole entries of a table, as tuples."""
        for part in self._parts(table, entry):
            yield from entry.iter_unpack(part)

    def _parts(self, table: Section | None, entry: struct.Struct) -> Iterator[bytes]:
        """Yield the same as they lie there, a part of the table at a time."""
        if table is None:
            return
        size = _whole(table.size, entry)
        part = _PART // entry.size * entry.size
        for begin in range(0, size, part):
            yield self.read(table.offset + begin, min(part, size - begin))

    def _defined(self, kind: int, types: tuple[int, ...]) -> Iterator[tuple[int, int, bytes]]:
        """Yield (address, size, name) of the symbols of some types that a table defines."""
        symbols, strings = self._symbols(kind)
        text = self.read(strings.offset, strings.size) if strings else b""
        names = _Names(text)
        for at, info, _, section, value, size in self._entries(symbols, SYMBOL):
            if section and info & 15 in types and at < len(text):
                yield self._placed(value, section), size, names.at(at)

    def _placed(self, value: int, section: int) -> int:
        """Return the address that a symbol's value means: in a relocatable object it is an offset in its section."""
        inside = self.is_relocatable and section < len(self.sections)
        return value + (self.sections[section].address if inside else 0) & LAST_ADDRESS

    def _all_placed(self, symbols: bytes) -> bytes:
        """Return the entries of a symbol table with addresses as their values."""
        return b"".join(
            SYMBOL.pack(name, info, other, section, self._placed(value, section), size)
            for name, info, other, section, value, size in SYMBOL.iter_unpack(symbols)
        )

    def _named(self, kind: int, names: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
        """Yield (name, address, size) of those that a table of symbols defines."""
        symbols, strings = self._symbols(kind)
        # A name is found in the string table first, so that the symbols need only be compared by number.
        wanted = self._find(strings, names) if strings else {}
        for part in self._parts(symbols, SYMBOL) if wanted else ():
            for index, at in enumerate(memoryview(part).cast("I")[:: SYMBOL.size // 4].tolist()):
                if at in wanted:
                    _, _, _, section, value, size = SYMBOL.unpack_from(part, index * SYMBOL.size)
                    if section:
                        yield wanted[at], value, size

    def _find(self, strings: Section, names: tuple[str, ...]) -> dict[int, str]:
        """Return where in a string table names are, some bytes of it at a time: libtorch's has 72 MB."""
        if strings.size > _MAX_TABLE:
            raise ElfError(f"a string table of {strings.size:,} bytes")
        found: dict[int, str] = {}
        keys = {name: name.encode() + b"\0" for name in names}
        overlap = max(map(len, keys.values()))
        for begin in range(0, strings.size, _PART):
            text = self.read(strings.offset + begin, min(_PART + overlap, strings.size - begin))
            for name, key in keys.items():
                at = text.find(key)
                while at >= 0 and len(found) < MAX_HEADERS:  # linkers also merge a name into the tail of a longer one
                    found[begin + at] = name
                    at = text.find(key, at + 1)
        return found

    def _symbols(self, kind: int) -> tuple[Section, Section] | tuple[None, None]:
        """Return the first table of symbols of this kind, and that of their names."""
        table = next((s for s in self.sections if s.type == kind), None)
        if table is None or table.link >= len(self.sections):
            return None, None
        return table, self.sections[table.link]


def _whole(size: int, entry: struct.Struct) -> int:
    """Return how many bytes the whole entries of a table have. ElfError if these are too many."""
    count = size // entry.size
    if count > _MAX_ENTRIES:
        raise ElfError(f"a table of {count:,} entries")
    return count * entry.size
