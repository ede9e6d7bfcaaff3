"""Files that a target has mapped to run, and that say what cannot be."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from interpreters import all_interpreters
from running import StartTarget, Target, target_env
from zig import MUSL, compile_with_zig

from weft.target.code import CodeBook
from weft.target.elf import ElfFile
from weft.target.image import Image
from weft.target.maps import Mapping
from weft.target.process import Process
from weft.target.unwinding import table_of_file

PROGRAM = """
import mmap, sys
file = open(sys.argv[1], "rb")
held = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
print("{}", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("address", [0x7F00_0000_0000_0000, 0xFFFF_FFFF_FFFF_F000])
def test_segments_at_high_addresses(start_target: StartTarget, tmp_path: Path, address: int) -> None:
    """GIVEN a mapped ELF file whose segments claim addresses that no process has THEN other code is told."""
    header = bytearray(b"\x7fELF\x02\x01\x01".ljust(64, b"\0"))
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, 1)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, address, address, 4096, 4096, 4096)
    file, program = tmp_path / "high.so", tmp_path / "maps.py"
    file.write_bytes((bytes(header) + segment).ljust(4096, b"\0"))
    program.write_text(PROGRAM)
    newest = next(each for each in reversed(all_interpreters()) if each.chroot is None)
    target = start_target(newest, program, file)
    assert any(mapping.path == str(file) for mapping in Process(target.pid).maps())
    book = CodeBook()
    book.map_of(Process(target.pid), within_s=60.0)
    assert any(module.is_interpreter for module in book.modules.values())
    book.close()


# Two builds of it are mapped at the same addresses, with other headers. They have no build-id.
REPLACES = """
#include <stdio.h>
#include <unistd.h>
volatile char room[ROOM] = {1};
void FUNCTION(void) { puts("{}"); fflush(stdout); }
int main(int count, char** words) {
    FUNCTION();
    char go;
    if (read(0, &go, 1) == 1) execv(words[1], (char*[]){words[1], words[0], 0});
}
"""


@pytest.fixture
def replaced(tmp_path: Path) -> Iterator[Target]:
    """A program that becomes `second`, then `first` again, and so on, each time that it is sent a byte."""
    (tmp_path / "program.c").write_text(REPLACES)
    first, second = (
        compile_with_zig(
            tmp_path / name,
            "-O1",
            "-static",
            "-no-pie",
            f"-DFUNCTION=of_{name}",
            f"-DROOM={room}",
            "program.c",
            target=MUSL,
        )
        for name, room in (("first", 1000), ("second", 2000))
    )
    target = Target([str(first), str(second)], target_env())
    yield target
    target.end()


def _replace(target: Target) -> None:
    assert target.process.stdin is not None
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    target.next_line()


class _Replaced(Process):
    """It becomes another program at one point of the look at it."""

    def __init__(self, target: Target, point: str) -> None:
        super().__init__(target.pid)
        self._target = target
        self._point = point

    def maps(self) -> list[Mapping]:
        mappings = super().maps()
        self._reach("maps are read")
        return mappings

    def open_module(self, image: Image) -> ElfFile | None:
        self._reach("headers are read")
        return super().open_module(image)

    def _reach(self, point: str) -> None:
        if point == self._point:
            _replace(self._target)


@pytest.mark.parametrize("point", ["maps are read", "headers are read"])
def test_an_exec_while_code_is_read(replaced: Target, point: str) -> None:
    """GIVEN an exec in the midst of a look at a program WHEN it runs again THEN its code is known as if nothing were.

    Known by which programs have which functions.
    """
    book = CodeBook()
    book.map_of(_Replaced(replaced, point), within_s=60.0)
    book.forget(replaced.pid)
    for _ in range(2):
        _replace(replaced)
        book.map_of(Process(replaced.pid), within_s=60.0)
        book.forget(replaced.pid)
    modules = {Path(module.path).name: module for module in book.modules.values() if module.path.startswith("/")}
    assert modules.keys() == {"first", "second"}
    for name, module in modules.items():
        assert not module.problems
        assert module.table
        assert module.file
        assert module.file.ranges_of(tuple(f"of_{each}" for each in modules)).keys() == {f"of_{name}"}
    book.close()


def test_a_program_that_has_come_back(replaced: Target) -> None:
    """GIVEN a program that became another and then itself again, of which the book was not told, WHEN its code is
    needed THEN that is read from the process as it is now."""
    book = CodeBook()
    book.map_of(Process(replaced.pid))
    for _ in range(2):
        _replace(replaced)
    book.map_of(Process(replaced.pid), within_s=60.0)
    (first,) = (module for module in book.modules.values() if module.path.startswith("/"))
    assert not first.problems
    assert first.file
    assert first.table
    assert first.table.covers(first.file.symbols(("of_first",))["of_first"])
    book.close()


def test_tables_that_no_process_uses(replaced: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN more tables than may be idle WHEN a process has ended THEN those are dropped that no other process has run,
    and come back with the next one that runs them."""
    monkeypatch.setattr("weft.target.code._MOST_IDLE", 0)
    book = CodeBook()
    book.map_of(Process(replaced.pid), within_s=60.0)
    book.map_of(Process(os.getpid()), within_s=60.0)
    book.forget(replaced.pid)
    assert {Path(module.path).name for module in book.modules.values() if not module.table} == {"first"}
    _replace(replaced)
    _replace(replaced)
    again = book.map_of(Process(replaced.pid), within_s=60.0)
    first = next(module for module in book.modules.values() if Path(module.path).name == "first")
    assert first.table
    assert first.table.number in [table.number for table in again.tables]
    assert not first.problems
    assert len(book.modules) == len({module.path for module in book.modules.values()})
    book.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_build_id_that_another_user_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN another user's program that claims the build-id of ours WHEN it was looked at first THEN a later recording
    makes our table of our file."""
    (tmp_path / "program.c").write_text(REPLACES)
    claims = ["-O1", "-static", "-no-pie", "-Wl,--build-id=0x" + "ab" * 20, "-DFUNCTION=f", "-DROOM=1", "program.c"]
    others = compile_with_zig(tmp_path / "others", "-fomit-frame-pointer", *claims, target=MUSL)
    ours = compile_with_zig(tmp_path / "ours", "-fno-omit-frame-pointer", *claims, target=MUSL)
    os.chown(others, 65534, 65534)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # not of the compiler, which has its libraries in one
    tables = {}
    for program in (others, ours):
        target = Target([str(program), ""], target_env())
        book = CodeBook()
        book.map_of(Process(target.pid), within_s=60.0)
        (tables[program],) = (module.table for module in book.modules.values() if module.path == str(program))
        book.close()
        target.end()
    with ElfFile(str(ours)) as file:
        own = table_of_file(file).save()
    assert tables[ours]
    assert tables[others]
    assert tables[ours].save() == own != tables[others].save()
