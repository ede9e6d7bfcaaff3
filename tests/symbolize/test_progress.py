"""Symbols of several modules, read at once, and how far that is."""

from __future__ import annotations

import io
from pathlib import Path

from lines import compile_library

from weft.cli.progress import ProgressLine
from weft.session import Progress
from weft.symbolize.recording import Symbolizer
from weft.target.code import CodeBook, CodeModule
from weft.target.elf import ElfFile


def test_several_modules(tmp_path: Path) -> None:
    """GIVEN modules of which one cannot be had THEN each frame has its own module's functions, and the last word of
    the progress is that all are done."""
    book = CodeBook()
    frames: dict[int, tuple[int, int]] = {}
    expected: dict[int, str] = {}
    for number in range(1, 7):
        folder = tmp_path / str(number)
        folder.mkdir()
        file = ElfFile(str(compile_library(folder, "-g", "-Wl,--build-id=none")))
        book.modules[number] = CodeModule(number, file.path, None, file if number != 3 else None)
        for address, size, name in file.functions():
            if size and name in (b"entry", b"outlined"):
                frames[len(frames)] = number, address
                expected[len(frames) - 1] = f"{address:#x}" if number == 3 else name.decode()
    frames[len(frames)] = 99, 0x10  # in no module
    told: list[tuple[int, int]] = []
    symbolizer = Symbolizer(book)
    found = dict(symbolizer.run(frames, lambda done, modules: told.append((done, modules))))
    assert {frame: functions[0].function for frame, functions in found.items()} == expected
    assert {functions[0].module for functions in found.values()} == {module.path for module in book.modules.values()}
    assert told[-1] == (6, 6)
    assert told == sorted(told)
    assert len(symbolizer.warnings) == 1
    book.close()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar() -> None:
    """GIVEN a terminal THEN a bar appears once reading takes long, and is gone in the end."""
    stream = Terminal()
    with ProgressLine(stream) as watch:
        assert watch
        watch(Progress(7.0, {}, {}, 1, symbols=(0, 10)))
        watch(Progress(7.1, {}, {}, 1, symbols=(4, 10)))
        assert stream.getvalue() == ""
        watch(Progress(7.6, {}, {}, 1, symbols=(5, 10)))
        assert "[" + "#" * 15 + "-" * 15 + "] 5 of 10 modules" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_no_terminal() -> None:
    """GIVEN no terminal THEN nobody asks how the recording stands, and nothing is written."""
    stream = io.StringIO()
    with ProgressLine(stream) as watch:
        assert watch is None
    assert stream.getvalue() == ""
