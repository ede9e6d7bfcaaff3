"""gdb's JIT interface: the objects that a JIT compiler has made in memory and told a debugger of.

gdb's manual, "JIT Compilation Interface", tells the structs. LLVM's MCJIT (numba) and CPython's own JIT use it. All is
read while the process runs: what is torn is read anew at the next look.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from weft import _native
from weft.errors import MemoryReadError
from weft.target.elf import ElfError, ElfFile
from weft.target.maps import Mapping
from weft.target.memory import Memory
from weft.target.perfmap import Function, JitNames, without_overlaps

DESCRIPTOR = "__jit_debug_descriptor"

_DESCRIPTOR = struct.Struct("<IIQQ")  # version, what is being done, to which entry, the first entry
_ENTRY = struct.Struct("<QQQQ")  # next, previous, address and size of the object
_MAX_ENTRIES = 1 << 13
_MAX_OBJECT = 16 << 20  # bytes
_MAX_BYTES = 256 << 20  # of all objects of a process
_TAIL = 4096  # bytes by which an object is known again: its section headers are at its end

_Key = tuple[int, int, bytes]  # address, size, tail


class JitObject(NamedTuple):
    """What one object tells, by addresses in the process."""

    code: tuple[tuple[int, int], ...]  # [begin, end)
    functions: tuple[Function, ...]
    frames: tuple[tuple[bytes, int, bool], ...]  # its CFI, as UnwindTable.build wants it

    def is_in(self, mapping: Mapping) -> bool:
        """Whether some of its code lies there."""
        return any(begin < mapping.end and end > mapping.start for begin, end in self.code)


class JitCode:
    """What is known of a process's code that lies in no module."""

    def __init__(self, names: JitNames | None) -> None:
        """Begin with nothing; `names`: those that are told in files, of a live process."""
        self._names = names
        self._known: dict[_Key, JitObject | None] = {}  # None: it is no object
        self._left = _MAX_BYTES
        self._now: list[JitObject] = []
        self._tables: dict[tuple[int, int], _native.UnwindTable] = {}  # by mapping, of the objects that are there now

    def look(self, memory: Memory, descriptors: list[int]) -> None:
        """See what there is by now; `descriptors`: addresses of __jit_debug_descriptor."""
        if self._names:
            self._names.read()
        keys = [key for entry in _entries(memory, descriptors) for key in self._see(memory, *entry)]
        now = [found for key in keys if (found := self._known[key])]
        if now != self._now:
            self._now = now
            self._tables.clear()

    def table_of(self, mapping: Mapping) -> _native.UnwindTable:
        """Return the unwind table of a mapping."""
        place = mapping.start, mapping.end
        if place not in self._tables:
            frames = [section for found in self._now if found.is_in(mapping) for section in found.frames]
            self._tables[place] = _native.UnwindTable.build(frames)
        return self._tables[place]

    def functions(self) -> list[Function]:
        """Return all functions that were ever there, in order of address; where they overlap, the last holds."""
        told = [function for found in self._known.values() if found for function in found.functions]
        return without_overlaps([*told, *(self._names.functions() if self._names else ())])

    def close(self) -> None:
        """Let go of the files."""
        if self._names:
            self._names.close()

    def _see(self, memory: Memory, address: int, size: int) -> Iterator[_Key]:
        """Yield what an object is known by, once it is."""
        with suppress(MemoryReadError):
            tail = min(size, _TAIL)
            key = address, size, memory.read(address + size - tail, tail)
            if key not in self._known and size <= self._left:
                self._left -= size
                self._known[key] = _parse(memory, memory.read(address, size))
            if key in self._known:
                yield key


def _entries(memory: Memory, descriptors: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (address, size) of each registered object. The lists may lead anywhere, and in circles."""
    seen: set[int] = set()
    for descriptor in descriptors:
        with suppress(MemoryReadError):
            version, _, _, entry = _DESCRIPTOR.unpack(memory.read(descriptor, _DESCRIPTOR.size))
            while version == 1 and entry and entry not in seen and len(seen) < _MAX_ENTRIES:
                seen.add(entry)
                entry, _, address, size = _ENTRY.unpack(memory.read(entry, _ENTRY.size))
                if 0 < size <= _MAX_OBJECT:
                    yield address, size


def _parse(memory: Memory, data: bytes) -> JitObject | None:
    try:
        with ElfFile.of_bytes("jit-object", data) as file:
            loaded = [section for section in file.sections if section.address and section.size]
            code = tuple((section.address, section.address + section.size) for section in loaded if section.is_code)
            functions = tuple((begin, begin + size, name) for begin, size, name in file.functions() if size)
            return JitObject(code, functions, tuple(_frames(memory, file)))
    except (OSError, ElfError, struct.error):
        return None


def _frames(memory: Memory, file: ElfFile) -> Iterator[tuple[bytes, int, bool]]:
    """Yield the object's CFI. A relocatable object's own is not relocated; where it is loaded, it is."""
    for section in file.sections:
        if section.name != ".eh_frame" or section.size > _MAX_OBJECT:
            continue
        with suppress(MemoryReadError):
            if not file.is_relocatable:
                yield file.read(section.offset, section.size), section.address, True
            elif section.address:
                yield memory.read(section.address, section.size), section.address, True
