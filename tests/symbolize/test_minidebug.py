"""Symbols in the forms in which distributions pack them."""

from __future__ import annotations

import lzma
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lines import ALL_LINES, PLACES, compile_library, lines_of, newest, share
from running import StartTarget
from weft_command import run_weft

from weft.symbolize.resolver import Resolver
from weft.target.code import CodeModule
from weft.target.elf import ElfFile


def functions_of(library: Path) -> dict[int, set[str]]:
    """The functions that nm sees in a library, by address."""
    rows = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout.splitlines()
    found: dict[int, set[str]] = {}
    for address, kind, name in (row.split() for row in rows if len(row.split()) == 3):
        if kind in "tT":
            found.setdefault(int(address, 16), set()).add(name)
    return found


def pack(library: Path, folder: Path) -> None:
    """Strip a library, and give it what gdb's manual makes as mini debug information: the functions that are not
    exported, in an ELF file of their own that xz packs.
    """
    exported = subprocess.run(["nm", "-D", "--format=posix", "--defined-only", library], capture_output=True, text=True)
    names = {row.split()[0] for row in exported.stdout.splitlines()}
    keep = {name for each in functions_of(library).values() for name in each} - names
    (folder / "keep").write_text("\n".join(keep))
    mini = folder / "mini"
    objcopy = ["objcopy", "-S", "--remove-section", ".gdb_index", "--remove-section", ".comment"]
    subprocess.run(["objcopy", "--only-keep-debug", library, folder / "debug"], check=True)
    subprocess.run([*objcopy, f"--keep-symbols={folder / 'keep'}", folder / "debug", mini], check=True)
    subprocess.run(["xz", "--keep", mini], check=True)
    subprocess.run(["objcopy", "--strip-all", "--add-section", f".gnu_debugdata={mini}.xz", library], check=True)


def resolver_of(library: Path) -> Resolver:
    return Resolver(CodeModule(1, str(library), None, ElfFile(str(library))))


def test_mini_debug_information(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a stripped library with mini debug information THEN its functions are those that nm saw before, those of
    them that are not exported too."""
    library = compile_library(tmp_path, "-g")
    functions = {address: names for address, names in functions_of(library).items() if names & {"outlined", "entry"}}
    assert len(functions) == 2
    pack(library, tmp_path)
    assert not functions_of(library)
    resolver = resolver_of(library)
    for address, names in functions.items():
        assert resolver.at(address)[0].function in names
    told = [function for function, _, _ in lines_of(start_target(newest(), "lines.py", library).pid)]
    assert told == ["outlined", "jumped_to", "entry"]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with nothing but what it exports."""
    return compile_library(tmp_path_factory.mktemp("bare"), "-g0", "-s")


@pytest.mark.parametrize(
    "hold",
    [
        lambda _: b"nothing",
        lambda library: lzma.compress(library)[:-20],
        lambda _: lzma.compress(bytes(100 << 20), preset=0),
        lambda _: lzma.compress(b"nothing"),
    ],
    ids=["no xz", "truncated", "too large", "no ELF"],
)
def test_damaged(bare: Path, tmp_path: Path, hold: Callable[[bytes], bytes]) -> None:
    """GIVEN mini debug information that is none, or a bomb THEN it is told, and exported functions have names."""
    library = tmp_path / bare.name
    held = tmp_path / "held"
    held.write_bytes(hold(bare.read_bytes()))
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={held}", bare, library], check=True)
    module = CodeModule(1, str(library), None, ElfFile(str(library)))
    resolver = Resolver(module)
    (problem,) = module.problems
    assert "mini debug" in problem
    rows = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout.splitlines()
    address = next(int(row.split()[0], 16) for row in rows if row.endswith(" T entry"))
    assert resolver.at(address)[0].function == "entry"


def test_shared_debug_information(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN names that dwz has moved into a file that two libraries share THEN all functions are told; WHEN that file
    is gone THEN an inlined function has its line, says in place of its name what it is, and a warning tells why."""
    library, shared = share(tmp_path)
    target = start_target(newest(), "lines.py", library)
    places = [(function, "one.c", line) for function, _, line in ALL_LINES]
    assert lines_of(target.pid) == places
    shared.unlink()
    nameless = [(name if name in PLACES[2:] else "[inlined]", file, line) for name, file, line in places]
    assert lines_of(target.pid) == nameless
    warnings = [row for row in run_weft("dump", target.pid).stdout.splitlines() if row.startswith("warning: ")]
    assert ["dwz" in row for row in warnings] == [True]
