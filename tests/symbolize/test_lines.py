"""Functions, lines and inlined functions of C whose every call stands on a line that says what it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from lines import ALL_LINES, PLACES, compile_library, lines_of, newest, own_frames
from running import StartTarget
from weft_command import run_weft


def test_with_debug_information(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN -g THEN each function is told with the line of its call, inlined ones too, and no frame for a jump."""
    target = start_target(newest(), "lines.py", compile_library(tmp_path, "-g"))
    assert lines_of(target.pid) == ALL_LINES


def test_without_debug_information(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a symbol table alone THEN the functions that have frames are told, with their module and no line."""
    library = compile_library(tmp_path, "-g0")
    target = start_target(newest(), "lines.py", library)
    assert lines_of(target.pid) == [(function, library.name, 0) for function in PLACES[2:]]


def test_stripped(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN exported symbols alone THEN other functions are told by where they begin, never by a neighbour's name."""
    library = compile_library(tmp_path, "-g0")
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    begin_of = {line.split()[-1]: int(line.split()[0], 16) for line in symbols.splitlines() if line[0] != " "}
    subprocess.run(["strip", library], check=True)
    target = start_target(newest(), "lines.py", library)
    told = json.loads(run_weft("dump", "--json", target.pid).stdout)
    expected = [f"fun_{begin_of['outlined']:x}", f"fun_{begin_of['jumped_to']:x}", "entry"]
    assert [frame["function"] for frame in own_frames(told)] == expected
