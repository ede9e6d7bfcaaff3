"""Code objects as the native walker reads them: decoded once, then frame by frame."""

from __future__ import annotations

from weft.cpython.layout import Version
from weft.cpython.linetable import NOWHERE, LineTable, LineTableError, Position
from weft.cpython.objects import decode_bytes, decode_str
from weft.sample import NO_FLAGS, Frame, FrameFlag, FrameKind

_CUT = "…"


def decode_text(kind: int, data: bytes, cut: bool) -> str:
    """Return a string of the target: `kind` bytes a character, 0 for bytes of 2.7; an ellipsis where it was cut."""
    text = decode_str(kind, data) if kind else decode_bytes(data)
    return text + _CUT if cut else text


class Code:
    """One code object: its names, and its line table, which is decoded when the first frame needs it."""

    def __init__(
        self,
        version: Version,
        first_line: int,
        filename: tuple[int, bytes, bool],
        name: tuple[int, bytes, bool],
        qualname: tuple[int, bytes, bool],
        line_table: bytes,
    ) -> None:
        self.file = decode_text(*filename)
        self.function = decode_text(*qualname) or decode_text(*name)
        self.first_line = first_line
        self._version = version
        self._table: bytes | LineTable = line_table

    def position(self, instruction: int) -> Position:
        """Return the place in the source of the instruction at a byte offset; NOWHERE if it has none."""
        if isinstance(self._table, bytes):
            try:
                self._table = LineTable(self._version, self._table, self.first_line)
            except LineTableError:
                self._table = LineTable(self._version, b"", self.first_line)
        return self._table.at(instruction)

    def frame(self, instruction: int, *, incomplete: bool) -> Frame:
        """Return the frame that stands at an instruction.

        An incomplete frame (pushed, not started) is at the function's first line, and so is one that stands on an
        instruction of no line: RESUME, prefixes of free-threaded and JIT builds.
        """
        place = NOWHERE if incomplete or instruction < 0 else self.position(instruction)
        return Frame(
            kind=FrameKind.PYTHON,
            function=self.function,
            file=self.file,
            line=place.line or max(self.first_line, 0),
            first_line=max(self.first_line, 0),
            end_line=place.end_line,
            column=place.column,
            end_column=place.end_column,
            flags=FrameFlag.INCOMPLETE if incomplete else NO_FLAGS,
        )
