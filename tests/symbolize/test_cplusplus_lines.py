"""Functions, lines and inlined functions of C++ whose every call stands on a line that says what it is: templates,
lambdas, landing pads, calls that never return, and functions that the compiler splits and clones."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest
from cplusplus_lines import COMPILERS, calls, chains, compile_library, need, places, told
from lines import lines_of, newest
from running import StartTarget

from weft.symbolize.dwarf_reader import DwarfFile, ReadError
from weft.target.elf import ElfFile


@pytest.fixture(scope="module", params=COMPILERS)
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, lack: Callable[[str], NoReturn]
) -> tuple[str, Path]:
    """A compiler, and the library that it has made with debug information."""
    compiler: str = request.param
    need(compiler, lack)
    return compiler, compile_library(tmp_path_factory.mktemp("library"), compiler, "-g")


def test_stack(start_target: StartTarget, compiled: tuple[str, Path]) -> None:
    """GIVEN a thread that is in all these functions at once THEN each is told by its own name in the source, with the
    line of its call: the one whose return address is in the next function, the part that is put aside as unlikely,
    the landing pad of an exception, the clones, and the chain of functions that are inlined.
    """
    compiler, library = compiled
    assert lines_of(start_target(newest(), "lines.py", library).pid) == places(compiler)


def test_without_process(compiled: tuple[str, Path]) -> None:
    """GIVEN the return addresses that objdump tells THEN there are the same functions and lines; this is what the tests
    of other forms of debug information compare."""
    compiler, library = compiled
    expected = chains(library, compiler)
    assert [place for chain in expected.values() for place in chain] == places(compiler)[1:]
    assert told(library, expected) == (expected, [])


def test_second_opinion(compiled: tuple[str, Path]) -> None:
    """GIVEN these return addresses THEN addr2line tells the same lines for them, less one."""
    compiler, library = compiled
    expected = chains(library, compiler)
    command = ["addr2line", "--inlines", "--exe", library, *(f"{address - 1:#x}" for address in expected)]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [int(number) for number in re.findall(r":(\d+)", rows)]
    assert lines == [line for chain in expected.values() for _, _, line in chain]


@pytest.mark.parametrize("compiled", ["g++"], indirect=True)
def test_what_gcc_makes(compiled: tuple[str, Path]) -> None:
    """GIVEN gcc THEN the library has all that the tests above are about: parts, clones, and a call that ends a
    function."""
    _, library = compiled
    rows = subprocess.run(["nm", "--demangle", library], capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [row.split(" ", 2) for row in rows]
    names = [name for _, _, name in symbols]
    for function, clone in [
        ("loom::catches(void (*)())", "cold"),
        ("(anonymous namespace)::splits(void (*)(), int)", "cold"),
        ("(anonymous namespace)::takes_apart((anonymous namespace)::Pair const&)", "isra.0"),
        ("(anonymous namespace)::specialised(void (*)(), int)", "constprop.0"),
        ("(anonymous namespace)::partly(void (*)(), int)", "part.0"),
    ]:
        assert f"{function} [clone .{clone}]" in names
    begins = {int(address, 16) for address, _, _ in symbols if address}
    assert calls(library)["loom::never_returns(void (*)())"] in begins


def test_symbols_alone(compiled: tuple[str, Path], tmp_path: Path) -> None:
    """GIVEN a symbol table and no debug information THEN functions have the same names, and no lines."""
    compiler, library = compiled
    bare = tmp_path / library.name
    subprocess.run(["objcopy", "--strip-debug", library, bare], check=True)
    outermost = {address: [(chain[-1][0], bare.name, 0)] for address, chain in chains(library, compiler).items()}
    assert told(bare, outermost) == (outermost, [])


@pytest.mark.parametrize(
    ("compiler", "options"),
    [
        ("g++", ["-gdwarf-4", "-fdebug-types-section"]),
        ("g++", ["-gdwarf-5", "-flto"]),
        ("g++", ["-g1"]),
        ("clang++", ["-gdwarf-5", "-gdwarf64", "-fdebug-types-section"]),
    ],
)
def test_forms(compiler: str, options: list[str], tmp_path: Path, lack: Callable[[str], NoReturn]) -> None:
    """GIVEN other forms of debug information THEN functions and lines are the same: old and 64-bit DWARF, types apart,
    optimised when linked, little of it."""
    need(compiler, lack)
    library = compile_library(tmp_path, compiler, *options)
    expected = chains(library, compiler)
    assert told(library, expected) == (expected, [])


@pytest.mark.parametrize("how", ["zlib", "zlib-gnu", "zstd"])
@pytest.mark.parametrize("compiled", ["g++"], indirect=True)
def test_compressed(compiled: tuple[str, Path], tmp_path: Path, how: str) -> None:
    """GIVEN debug information in compressed sections THEN functions and lines are the same."""
    compiler, library = compiled
    packed = tmp_path / library.name
    subprocess.run(["objcopy", f"--compress-debug-sections={how}", library, packed], check=True)
    rows = subprocess.run(["readelf", "-SW", packed], capture_output=True, text=True, check=True).stdout.splitlines()
    for section in ("debug_line", "debug_info"):
        assert any(f" .z{section} " in row or (f" .{section} " in row and " C " in row) for row in rows)
    expected = chains(packed, compiler)
    assert told(packed, expected) == (expected, [])


def test_lines_without_entries(tmp_path: Path, lack: Callable[[str], NoReturn]) -> None:
    """GIVEN clang's -g1, which leaves out functions into which none is inlined, and the scopes of the others THEN all
    have their lines, and those that have frames their names."""
    need("clang++", lack)
    library = compile_library(tmp_path, "clang++", "-g1")
    expected = chains(library, "clang++")
    found, problems = told(library, expected)
    assert {address: [place[1:] for place in chain] for address, chain in found.items()} == {
        address: [place[1:] for place in chain] for address, chain in expected.items()
    }
    assert {address: chain[-1][0] for address, chain in found.items()} == {
        address: chain[-1][0] for address, chain in expected.items()
    }
    assert not problems


def test_damaged(tmp_path: Path, lack: Callable[[str], NoReturn]) -> None:
    """GIVEN that, with bytes changed at random THEN reading ends, with an answer or the error that it says."""
    need("clang++", lack)
    library = compile_library(tmp_path, "clang++", "-g1")
    addresses = chains(library, "clang++")
    whole = library.read_bytes()
    with ElfFile(str(library)) as file:
        sections = [section for section in file.sections if section.name.startswith(".debug")]
    random = Random(1)
    errors = 0
    for _ in range(50):
        data = bytearray(whole)
        for section in random.choices(sections, k=random.choice([1, 3, 20])):
            data[section.offset + random.randrange(section.size)] = random.choice([0, 0x80, 0xFF])
        library.write_bytes(data)
        read = DwarfFile(str(library), None)
        for ask, address in product((read.line, read.names, read.dwo), addresses):
            try:
                ask(address)
            except ReadError:
                errors += 1
    assert errors


@pytest.mark.parametrize(("compiler", "version"), [("g++", 4), ("clang++", 5)])
def test_split(compiler: str, version: int, tmp_path: Path, lack: Callable[[str], NoReturn]) -> None:
    """GIVEN split DWARF THEN the functions that have frames are told, with the lines where they are, be these of what
    is inlined; and that this is not all."""
    need(compiler, lack)
    library = compile_library(tmp_path, compiler, f"-gdwarf-{version}", "-gsplit-dwarf")
    expected = {address: [(chain[-1][0], *chain[0][1:])] for address, chain in chains(library, compiler).items()}
    found, problems = told(library, expected)
    assert found == expected
    assert [".dwo" in problem for problem in problems] == [True]
