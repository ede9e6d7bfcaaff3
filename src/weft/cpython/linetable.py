"""Line tables: which line, and from 3.11 which columns, an instruction belongs to.

Three forms: lnotab up to 3.9 (Objects/lnotab_notes.txt; unsigned line steps in 2.7, signed from 3.6 on), ranges with
line steps in 3.10 (PEP 626), the location table from 3.11 on (Objects/locations.md, InternalDocs/code_objects.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from weft.cpython.layout import Version
from weft.errors import WeftError


class LineTableError(WeftError):
    """The bytes are no line table: torn, or not what was taken for one."""


class Position(NamedTuple):
    """A place in the source. Lines and columns count from 1, columns in UTF-8 bytes; 0: there is none.

    [column, end_column) is half open: `end_column` is the first column behind.
    """

    line: int
    end_line: int = 0
    column: int = 0
    end_column: int = 0


NOWHERE = Position(0)


class LineTable:
    """The line table of one code object. Offsets are bytes of bytecode from its beginning."""

    def __init__(self, version: Version, table: bytes, first_line: int) -> None:
        """Decode it. LineTableError if it cannot be."""
        if version >= (3, 11):
            ranges = _locations(table, first_line)
        elif version >= (3, 10):
            ranges = _line_ranges(table, first_line)
        else:
            ranges = _lnotab(table, first_line, signed=version.major >= 3)
        self._starts: list[int] = []
        self._positions: list[Position] = []
        self.length = 0  # bytes of bytecode that it covers; of lnotab only up to the beginning of its last line
        try:
            for start, end, position in ranges:
                self.length = end
                self._starts.append(start)
                # A module begins with an instruction of line 0, which is no line (Python/compile.c, RESUME).
                self._positions.append(position if position.line > 0 else NOWHERE)
        except IndexError:
            raise LineTableError(f"a line table of {len(table)} bytes ends too early") from None

    def at(self, offset: int) -> Position:
        """Return the position of the instruction at `offset`; NOWHERE where the table says that it has none."""
        index = bisect_right(self._starts, offset) - 1
        return self._positions[index] if index >= 0 else NOWHERE


_Range = tuple[int, int, Position]


def _lnotab(table: bytes, line: int, *, signed: bool) -> Iterator[_Range]:
    """Pairs: bytes to go on, lines to go on; a line holds until the next pair that goes on in bytes."""
    start = 0
    for at in range(0, len(table), 2):
        step, lines = table[at], table[at + 1]
        if step:
            yield start, start + step, Position(line)
            start += step
        line += lines - 256 if signed and lines >= 128 else lines
    yield start, start, Position(line)


def _line_ranges(table: bytes, line: int) -> Iterator[_Range]:
    """Pairs: bytes that the range covers, signed lines to go on before it; -128: the range has no line."""
    start = 0
    for at in range(0, len(table), 2):
        size, lines = table[at], table[at + 1]
        if lines != 128:
            line += lines - 256 if lines > 128 else lines
        if size:
            yield start, start + size, NOWHERE if lines == 128 else Position(line)
        start += size


def _locations(table: bytes, line: int) -> Iterator[_Range]:
    """Entries: a byte with the top bit set, 4 bits of form and 3 bits of length - 1 in code units, then its numbers."""
    at = start = 0
    while at < len(table):
        head = table[at]
        if not head & 0x80:
            raise LineTableError(f"no entry of a line table begins at byte {at}")
        at += 1
        end = start + 2 * ((head & 7) + 1)
        form = head >> 3 & 15
        if form == 15:  # none
            position = NOWHERE
        elif form == 14:  # long
            lines, at = _signed(table, at)
            more, at = _varint(table, at)
            column, at = _varint(table, at)
            end_column, at = _varint(table, at)
            line += lines
            position = Position(line, line + more, column, end_column)  # told one higher, so counted from 1; 0: none
        elif form == 13:  # no columns
            lines, at = _signed(table, at)
            line += lines
            position = Position(line, line)
        elif form >= 10:  # one line
            line += form - 10
            position = Position(line, line, table[at] + 1, table[at + 1] + 1)
            at += 2
        else:  # short
            column = form << 3 | table[at] >> 4 & 7
            position = Position(line, line, column + 1, column + (table[at] & 15) + 1)
            at += 1
        yield start, end, position
        start = end


def _varint(table: bytes, at: int) -> tuple[int, int]:
    """Six bits a byte, lowest first; bit 6 says that more follow."""
    value = shift = 0
    while True:
        byte = table[at]
        at += 1
        value |= (byte & 63) << shift
        if not byte & 64:
            return value, at
        shift += 6
        if shift > 30:
            raise LineTableError("a number in a line table is too long")


def _signed(table: bytes, at: int) -> tuple[int, int]:
    """The sign in the lowest bit."""
    value, at = _varint(table, at)
    return (-(value >> 1) if value & 1 else value >> 1), at
