"""What is known of code without a symbol of its own: stubs of the linker, and functions whose names were stripped."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator

from weft.symbolize.methods import methods
from weft.target.elf import ElfFile

# Jumps by a slot of the GOT: [endbr64] [bnd] jmp *disp(%rip). Sections as GNU ld and lld name them.
_STUB_SECTIONS = (".plt", ".plt.sec", ".plt.got", ".iplt")
_JUMP = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(.{4})", re.DOTALL)
_ALIGNMENT, _STUB_SIZE = 8, 16
STUB = "@plt"  # what the names of stubs are told with
_MAX_STUBS = 1 << 20
_MAX_STARTS = 1 << 22
# .eh_frame_hdr (LSB Core, "Exception Frames"): version 1, its encodings as every linker writes them: a pc-relative
# pointer and a count of 4 bytes, then pairs of 4-byte offsets from the section's own address, in order.
_HEADER = bytes([1, 0x1B, 0x03, 0x3B])
_PAIR = struct.Struct("<iI")


def stubs(file: ElfFile) -> Iterator[tuple[int, int, int]]:
    """Yield (address, size, place of the name in the file) of the procedure linkage table's entries. ElfError."""
    slots = file.imports()
    for section in filter(None, map(file.section, _STUB_SECTIONS)) if slots else ():
        for jump in _JUMP.finditer(file.read(section.offset, min(section.size, _MAX_STUBS * _STUB_SIZE))):
            begin = section.address + jump.start()
            slot = section.address + jump.end() + int.from_bytes(jump[1], "little", signed=True)
            if begin % _ALIGNMENT == 0 and slot in slots:
                yield begin, _STUB_SIZE, slots[slot]


def stub_ranges(file: ElfFile) -> list[range]:
    """Return the addresses of the procedure linkage table."""
    sections = filter(None, map(file.section, _STUB_SECTIONS))
    return [range(section.address, section.address + section.size) for section in sections]


def stub_name(file: ElfFile, place: int) -> bytes:
    """Return the name to tell an entry by: `memset@plt`. ElfError."""
    return file.name_at(place) + STUB.encode()


class Unnamed:
    """The functions of a module that have no symbol: where they begin, by the index of its unwind information."""

    def __init__(self, file: ElfFile) -> None:
        """Read the index, and the names that Python's tables of methods have. ElfError."""
        self._starts: list[int] = []
        self._methods = methods(file)
        section = file.section(".eh_frame_hdr")
        if section is None or section.size < 12:
            return
        contents = file.read(section.offset, min(section.size, 12 + _MAX_STARTS * _PAIR.size))
        pairs = contents[12 : 12 + int.from_bytes(contents[8:12], "little") * _PAIR.size]
        if contents[:4] == _HEADER:
            whole = pairs[: len(pairs) // _PAIR.size * _PAIR.size]
            self._starts = sorted(section.address + offset for offset, _ in _PAIR.iter_unpack(whole))

    def name(self, address: int) -> str | None:
        """Return a name for the function at an address: of a method, or `fun_` and where it begins, in hex."""
        at = bisect_right(self._starts, address)
        if not at:
            return None
        begin = self._starts[at - 1]
        return self._methods[begin].decode() if begin in self._methods else f"fun_{begin:x}"
