"""Functions, lines and inlined functions of C whose every call stands on a line that says what it is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ziglang
from interpreters import Interpreter, all_interpreters
from running import StartTarget
from weft_command import run_weft

SOURCE = Path(__file__).resolve().parent.parent / "targets" / "lines.c"
PLACES = ("inlined_twice", "inlined", "outlined", "jumped_to", "entry")  # innermost first


def line_of(function: str) -> int:
    """The line that says that it is the call in this function."""
    lines = SOURCE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if f"/* at {function} */" in line)


def compile_library(folder: Path, *options: str) -> Path:
    """A shared library of lines.c."""
    library = folder / "liblines.so"
    zig = Path(ziglang.__file__).with_name("zig")
    flags = ["-target", "x86_64-linux-gnu.2.17", "-O2", "-shared", "-fPIC", *options]
    subprocess.run([zig, "cc", *flags, SOURCE, "-o", library], check=True)
    return library


def own_frames(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The frames of the library."""
    (thread,) = told["threads"]
    return (frame for frame in thread["frames"] if frame.get("module", "").endswith("/liblines.so"))


@pytest.fixture
def newest() -> Interpreter:
    """One interpreter; which one does not matter here."""
    return next(each for each in reversed(all_interpreters()) if each.chroot is None)


def test_with_debug_information(newest: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN -g THEN each function is told with the line of its call, inlined ones too, and no frame for a jump."""
    target = start_target(newest, "lines.py", compile_library(tmp_path, "-g"))
    told = json.loads(run_weft("dump", "--json", target.pid).stdout)
    found = [(frame["function"], Path(frame["file"]).name, frame["line"]) for frame in own_frames(told)]
    assert found == [(function, "lines.c", line_of(function)) for function in PLACES]


def test_without_debug_information(newest: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a symbol table alone THEN the functions that have frames are told, with their module and no line."""
    library = compile_library(tmp_path, "-g0")
    target = start_target(newest, "lines.py", library)
    told = json.loads(run_weft("dump", "--json", target.pid).stdout)
    found = [(frame["function"], frame["file"], frame["line"]) for frame in own_frames(told)]
    assert found == [(function, str(library), 0) for function in PLACES[2:]]


def test_stripped(newest: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN exported symbols alone THEN other functions are told by where they begin, never by a neighbour's name."""
    library = compile_library(tmp_path, "-g0")
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    begin_of = {line.split()[-1]: int(line.split()[0], 16) for line in symbols.splitlines() if line[0] != " "}
    subprocess.run(["strip", library], check=True)
    target = start_target(newest, "lines.py", library)
    told = json.loads(run_weft("dump", "--json", target.pid).stdout)
    expected = [f"fun_{begin_of['outlined']:x}", f"fun_{begin_of['jumped_to']:x}", "entry"]
    assert [frame["function"] for frame in own_frames(told)] == expected
