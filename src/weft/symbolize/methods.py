"""Names for C functions that Python can call, from the tables by which modules and types define them.

Stripped interpreters and wheels have no names for them left, but PyMethodDef arrays and the slots of exported types
must stay. They are read from the file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import islice

from weft.target.elf import ElfFile, Section

_WORD = struct.Struct("<Q")
# struct PyMethodDef (Include/methodobject.h): char *ml_name; PyCFunction ml_meth; int ml_flags; char *ml_doc.
_MAX_METHOD_FLAGS = 0x3FF  # METH_METHOD is the highest, 0x200
_TEXT, _STRINGS, _DATA = re.compile(r"\.text.*"), re.compile(r"\.rodata.*"), re.compile(r"\.data(\..*)?")
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{0,99}\0")
_TYPE_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_.]{0,99}\0")
_TYPE_SYMBOL = re.compile(rb"_?Py[A-Za-z]\w*_Type")
# struct _typeobject (Include/cpython/object.h), the same from 2.7 to 3.15 but for free-threaded builds, whose object
# header is longer: word of the structure -> slot.
_TP_NAME, _TP_METHODS = 3, 29
_SLOTS = {
    6: "tp_dealloc",
    11: "tp_repr",
    15: "tp_hash",
    16: "tp_call",
    17: "tp_str",
    18: "tp_getattro",
    19: "tp_setattro",
    23: "tp_traverse",
    24: "tp_clear",
    25: "tp_richcompare",
    27: "tp_iter",
    28: "tp_iternext",
    34: "tp_descr_get",
    35: "tp_descr_set",
    37: "tp_init",
    38: "tp_alloc",
    39: "tp_new",
    40: "tp_free",
}
_MAX_METHODS = 1024  # of one type
_MAX_TYPES = 4096  # exported; CPython's are some 150
_MAX_SECTIONS = 16  # of a kind: .data, .data.rel.ro and so on
_MAX_DATA = 64 << 20  # bytes of one


def methods(file: ElfFile) -> dict[int, bytes]:
    """Return names of functions by where they begin: `list.sort`, `sorted`, `list.tp_repr`. ElfError.

    A function that has different names has none here.
    """
    exported = (address for address, name in file.data_symbols() if _TYPE_SYMBOL.fullmatch(name))
    types = set(islice(exported, _MAX_TYPES))
    imported = map(file.name_at, file.imports().values())
    if not types and not any(name.startswith((b"Py", b"_Py")) for name in imported):
        return {}
    tables = _Tables(file)
    found: dict[int, set[tuple[bytes, bytes]]] = {}
    for address in types:
        owner = tables.string(tables.word(address + _TP_NAME * _WORD.size), _TYPE_NAME)
        for function, name in tables.of_type(address) if owner else ():
            found.setdefault(function, set()).add((owner, name))
    for function, name in tables.methods():
        if function not in found:
            found[function] = {(b"", name)}
        elif not any(owner for owner, _ in found[function]):
            found[function].add((b"", name))
    return {function: name for function, names in found.items() if (name := _common(names))}


def _common(names: set[tuple[bytes, bytes]]) -> bytes:
    (owner, name), *others = names
    if not others:
        return owner + b"." + name if owner else name
    # One slot for several types is a helper of no type; one method of several types is that method.
    return b"" if any(other != name for _, other in others) or name.startswith(b"tp_") else name


def _sections(file: ElfFile, name: re.Pattern[str]) -> list[Section]:
    """Return the first sections of a kind."""
    return list(islice((s for s in file.sections if name.fullmatch(s.name)), _MAX_SECTIONS))


class _Tables:
    """The initialized data of a module, as the dynamic linker relocates it."""

    def __init__(self, file: ElfFile) -> None:
        relocated = dict(file.relative_relocations())
        self._data: list[tuple[int, list[int]]] = []
        self._text = _sections(file, _TEXT)
        self._strings = [(s, file.read(s.offset, min(s.size, _MAX_DATA))) for s in _sections(file, _STRINGS)]
        for section in _sections(file, _DATA):
            size = min(section.size, _MAX_DATA) // _WORD.size
            words = list(struct.unpack(f"<{size}Q", file.read(section.offset, size * _WORD.size)))
            for i in range(size):
                words[i] = relocated.get(section.address + i * _WORD.size, words[i])
            self._data.append((section.address, words))

    def word(self, address: int) -> int:
        """Return a word of the data, 0 where there is none."""
        for begin, words in self._data:
            at, odd = divmod(address - begin, _WORD.size)
            if not odd and 0 <= at < len(words):
                return words[at]
        return 0

    def string(self, address: int, form: re.Pattern[bytes]) -> bytes:
        """Return the string of a form at an address, empty if there is none."""
        for section, text in self._strings:
            if section.address <= address < section.address + section.size:
                found = form.match(text, address - section.address)
                return found[0][:-1] if found else b""
        return b""

    def is_code(self, address: int) -> bool:
        """Whether a function may begin here."""
        return any(section.address <= address < section.address + section.size for section in self._text)

    def methods(self) -> Iterator[tuple[int, bytes]]:
        """Yield (function, name) of all that looks like a PyMethodDef."""
        for begin, words in self._data:
            for i in range(len(words) - 3):
                if 0 < words[i + 2] <= _MAX_METHOD_FLAGS and (method := self._method(begin + i * _WORD.size)):
                    yield method

    def of_type(self, address: int) -> Iterator[tuple[int, bytes]]:
        """Yield (function, name) of the slots and methods of a type."""
        for at, slot in _SLOTS.items():
            function = self.word(address + at * _WORD.size)
            if self.is_code(function):
                yield function, slot.encode()
        table = self.word(address + _TP_METHODS * _WORD.size)
        for i in range(_MAX_METHODS if table else 0):
            method = self._method(table + i * 4 * _WORD.size)
            if method is None:
                return
            yield method

    def _method(self, address: int) -> tuple[int, bytes] | None:
        name, function, flags, _ = (self.word(address + i * _WORD.size) for i in range(4))
        if not 0 < flags <= _MAX_METHOD_FLAGS or not self.is_code(function):
            return None
        text = self.string(name, _IDENTIFIER)
        return (function, text) if text else None
