"""BTF, the types of a BPF object, and .BTF.ext, what it says of its functions (Documentation/bpf/btf.rst of Linux)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

# Magic, version, flags, header size, offset and size of the types and of the strings.
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")  # name, kind and count, size or type
_STRUCT, _VARIABLE, _SECTION = 4, 14, 15
# Bytes behind the type itself, by kind: in all, or for each of its members.
_FIXED = {1: 4, 3: 12, _VARIABLE: 4, 17: 4}
_EACH = {4: 12, 5: 12, 6: 8, 13: 8, _SECTION: 12, 19: 12}


def with_sections(btf: bytes, sizes: dict[str, int], offsets: dict[str, int]) -> bytes:
    """Return the types with what is left to the linker: the sizes of sections, and where variables lie in them."""
    data = bytearray(btf)
    names = {number: name for number, (_, kind, _, name) in enumerate(_types(btf), 1) if kind == _VARIABLE}
    for at, kind, count, name in _types(btf):
        if kind == _SECTION:
            struct.pack_into("<I", data, at + 8, sizes[name])
            members = [struct.unpack_from("<III", btf, at + _TYPE.size + i * 12) for i in range(count)]
            told = sorted((offsets[names[number]], number, size) for number, _, size in members)
            for i, (offset, number, size) in enumerate(told):
                struct.pack_into("<III", data, at + _TYPE.size + i * 12, number, offset, size)
    return bytes(data)


def size_of(btf: bytes, struct_name: str) -> int:
    """Return the size of a struct in bytes. KeyError."""
    for at, kind, _, name in _types(btf):
        if kind == _STRUCT and name == struct_name:
            (size,) = struct.unpack_from("<I", btf, at + 8)
            return int(size)
    raise KeyError(struct_name)


def _types(btf: bytes) -> Iterator[tuple[int, int, int, str]]:
    """Yield where each type is, its kind, how many members it has, its name."""
    _, _, _, header, types, size, strings, _ = _HEADER.unpack_from(btf)
    at = header + types
    end = at + size
    while at < end:
        name, info, _ = _TYPE.unpack_from(btf, at)
        kind, count = info >> 24 & 31, info & 0xFFFF
        yield at, kind, count, _string(btf, header + strings + name)
        at += _TYPE.size + _FIXED.get(kind, 0) + _EACH.get(kind, 0) * count


def _string(btf: bytes, at: int) -> str:
    return btf[at : btf.index(b"\0", at)].decode()


@dataclass(slots=True)
class Records:
    """One kind of records of .BTF.ext: each begins with the offset, in bytes, of the instruction that it tells of."""

    size: int
    by_section: dict[str, list[bytes]]

    def within(self, section: str, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield (offset from `begin`, the rest of the record)."""
        for record in self.by_section.get(section, ()):
            (offset,) = struct.unpack_from("<I", record)
            if begin <= offset < end:
                yield offset - begin, record[4:]


def extensions(btf: bytes, ext: bytes) -> tuple[Records, Records, Records]:
    """Return what .BTF.ext tells: functions, lines, relocations."""
    _, _, _, header, _, _, strings, _ = _HEADER.unpack_from(btf)
    (begin,) = struct.unpack_from("<I", ext, 4)

    def records(offset: int, size: int) -> Records:
        at = begin + offset
        end = at + size
        if size == 0:
            return Records(0, {})
        (record,) = struct.unpack_from("<I", ext, at)
        at += 4
        found: dict[str, list[bytes]] = {}
        while at < end:
            name, count = struct.unpack_from("<II", ext, at)
            at += 8
            found[_string(btf, header + strings + name)] = [ext[at + i * record :][:record] for i in range(count)]
            at += count * record
        return Records(record, found)

    functions, lines, relocations = (struct.unpack_from("<II", ext, at) for at in (8, 16, 24))
    return records(*functions), records(*lines), records(*relocations)
