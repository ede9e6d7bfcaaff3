"""Line tables against what each interpreter says itself, and against damage."""

from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interpreters import Interpreter
from running import TARGETS, target_env

from weft.cpython.layout import Version
from weft.cpython.linetable import NOWHERE, LineTable, LineTableError, Position

DUMP = TARGETS / "linetables.py"


def test_every_offset_is_where_the_interpreter_says(interpreter: Interpreter) -> None:
    """Fifty modules of the library and sources made to be hard: lines thousands of columns wide, gaps of 70,000 lines,
    steps back, expressions over many lines, decorators, instructions without a line. Every offset of every code object
    must have the line of PyCode_Addr2Line and the columns of co_positions()."""
    run = subprocess.run(
        [*interpreter.command, "-"], input=DUMP.read_bytes(), env=target_env(), capture_output=True, check=True
    )
    told = json.loads(run.stdout)
    version = Version.from_hex(told["version"])
    instructions = 0
    for code in told["codes"]:
        table = LineTable(version, bytes.fromhex(code["table"]), code["first"])
        offsets = range(0, code["size"], told["step"])
        ours = [table.at(offset) for offset in offsets]
        # PyCode_Addr2Line says -1 for "no line"; 0 is no line either, it is where modules of 3.11 on begin.
        assert [position.line for position in ours] == [max(0, line) for line in code["lines"]], code["name"]
        instructions += len(ours)
        if code["positions"] is not None:
            assert ours == [_position(*numbers) for numbers in code["positions"]], code["name"]
        if version >= (3, 10):
            assert table.length == code["size"]
    assert instructions > 50_000


def _position(line: int | None, end_line: int | None, column: int | None, end_column: int | None) -> Position:
    """What co_positions() tells, with columns from 1 and 0 for None."""
    if not line:
        return NOWHERE
    return Position(
        line,
        end_line or 0,
        0 if column is None else column + 1,
        0 if end_column is None else end_column + 1,
    )


@pytest.mark.parametrize("version", [Version(2, 7), Version(3, 9), Version(3, 10), Version(3, 11)], ids=str)
@given(table=st.binary(max_size=200), first=st.integers(0, 1 << 31), offset=st.integers(-4, 5000))
def test_damaged_tables_are_decoded_or_refused(version: Version, table: bytes, first: int, offset: int) -> None:
    """Any bytes may stand where a table was (a torn read, freed memory): decoding ends, with a position or with
    LineTableError, and nothing else."""
    try:
        found = LineTable(version, table, first).at(offset)
    except LineTableError:
        return
    assert isinstance(found, Position)


def test_an_offset_before_the_code_has_no_position() -> None:
    """A frame of 3.11 that has not begun stands one unit before its bytecode."""
    table = LineTable(Version(3, 11), bytes([0x80 | 13 << 3, 0]), 7)
    assert table.at(-2) == NOWHERE
    assert table.at(0) == Position(7, 7)
