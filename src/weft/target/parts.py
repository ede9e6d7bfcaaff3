"""The parts of a function that no symbol tells: compilers lay what they take to be seldom run apart from the rest.

gcc calls such a part `NAME.cold`, a local symbol that stripped files do not have. CFI tells its range (an FDE of its
own), but not whose it is. Jumps do: into the midst of a function come only those of its own other parts; calls and tail
calls begin where it begins. They are x86-64's `jmp rel32` and `jcc rel32` (Intel SDM, volume 2), looked for at each
byte. What looks like one by chance leads to some place once, and none leads back from there.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

from weft.target.elf import ElfFile, Section

_JUMP = re.compile(rb"\xe9|\x0f[\x80-\x8f]")
_LEAST = 3  # jumps each way; eval loops and their parts have 11 to 400
_MAX_SIZE = 1 << 20  # bytes of a function; an eval loop has up to 90,000
_MAX_PARTS = 8  # that are looked at; all that were seen have one
_HEADER = struct.Struct("<BBBBii")  # of .eh_frame_hdr: version, encodings, where .eh_frame is, how many functions
_SEARCHED = b"\x01\x1b\x03\x3b"  # with a table to search, of two sdata4 from its own address on (LSB 5.0, 10.6.2)
_FDE = struct.Struct("<IIiI")  # length, CIE, begin from here on, size: as compilers encode them


def parts_of(file: ElfFile, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the other parts [begin, end) of the function [begin, end), in linked addresses. ElfError.

    None where the file does not tell: without .eh_frame_hdr, or in a form that compilers for x86-64 do not use.
    """
    functions = _Functions(file)
    found: Counter[tuple[int, int]] = Counter()
    for target in _jumps(file, begin, end):
        if not begin <= target < end:
            found[functions.around(target)] += 1
    found.pop(_NOWHERE, None)
    return sorted(
        part
        for part, jumps in found.most_common(_MAX_PARTS)
        if jumps >= _LEAST and sum(begin < target < end for target in _jumps(file, *part)) >= _LEAST
    )


_NOWHERE = (0, 0)


class _Functions:
    """The functions that a file's .eh_frame tells of."""

    def __init__(self, file: ElfFile) -> None:
        self._file = file
        self._header = file.section(".eh_frame_hdr")
        self._frames = file.section(".eh_frame")
        self._pairs = memoryview(b"").cast("i")  # begin, FDE: each from the header on; by their begin
        if self._header and self._frames and self._header.size >= _HEADER.size:
            data = file.read(self._header.offset, self._header.size)
            if data.startswith(_SEARCHED):
                count = min(_HEADER.unpack_from(data)[-1], (len(data) - _HEADER.size) // 8)
                self._pairs = memoryview(data)[_HEADER.size :][: 8 * max(count, 0)].cast("i")

    def around(self, address: int) -> tuple[int, int]:
        """Return the function [begin, end) in the midst of which an address lies. ElfError."""
        begins = self._pairs[::2]
        if self._header is None or self._frames is None or not len(begins):
            return _NOWHERE
        index = bisect_right(begins, address - self._header.address) - 1
        begin = self._header.address + begins[index]
        entry = self._header.address + self._pairs[2 * index + 1]
        if index < 0 or begin == address or not _has(self._frames, entry, _FDE.size):
            return _NOWHERE
        *_, offset, size = _FDE.unpack(_read(self._file, self._frames, entry, _FDE.size))
        is_as_told = entry + 8 + offset == begin
        return (begin, begin + size) if is_as_told and address < begin + size else _NOWHERE


def _jumps(file: ElfFile, begin: int, end: int) -> Iterator[int]:
    """Yield where the jumps in a function lead, and what looks like one."""
    if end - begin > _MAX_SIZE:
        return
    section = next((s for s in file.sections if s.is_code and _has(s, begin, end - begin)), None)
    code = _read(file, section, begin, end - begin) if section else b""
    for match in _JUMP.finditer(code):
        at = match.end()
        if at + 4 <= len(code):
            yield begin + at + 4 + int.from_bytes(code[at : at + 4], "little", signed=True)


def _has(section: Section, address: int, size: int) -> bool:
    return 0 <= address - section.address <= section.size - size


def _read(file: ElfFile, section: Section, address: int, size: int) -> bytes:
    return file.read(section.offset + address - section.address, size)
