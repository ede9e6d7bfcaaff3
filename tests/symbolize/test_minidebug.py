"""Symbols in the forms in which distributions pack them."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

import pytest
from lines import ALL_LINES, SOURCE, compile_library, lines_of, newest
from running import StartTarget

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


@pytest.mark.parametrize("damage", ["no xz", "truncated", "too large", "no ELF"])
def test_damaged(tmp_path: Path, damage: str) -> None:
    """GIVEN mini debug information that is none, or a bomb THEN it is told, and exported functions have names."""
    library = compile_library(tmp_path, "-g0", "-s")
    held = {
        "no xz": b"nothing",
        "truncated": lzma.compress(library.read_bytes())[:-20],
        "too large": lzma.compress(bytes(100 << 20)),
        "no ELF": lzma.compress(b"nothing"),
    }[damage]
    (tmp_path / "held").write_bytes(held)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={tmp_path / 'held'}", library], check=True)
    module = CodeModule(1, str(library), None, ElfFile(str(library)))
    resolver = Resolver(module)
    (problem,) = module.problems
    assert "mini debug" in problem
    rows = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout.splitlines()
    address = next(int(row.split()[0], 16) for row in rows if row.endswith(" T entry"))
    assert resolver.at(address)[0].function == "entry"


@pytest.mark.parametrize("how", ["zlib", "zlib-gnu", "zstd"])
def test_compressed_debug_information(start_target: StartTarget, tmp_path: Path, how: str) -> None:
    """GIVEN compressed sections of debug information THEN functions and lines are told."""
    source = tmp_path / "large.c"  # small sections are left as they are
    functions = [f"int pad_{number}(int x) {{\n    return x * {number};\n}}" for number in range(200)]
    source.write_text("\n".join([f'#include "{SOURCE}"', *functions]))
    library = compile_library(tmp_path, "-g", source=source)
    subprocess.run(["objcopy", f"--compress-debug-sections={how}", library], check=True)
    rows = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout.splitlines()
    for section in ("debug_line", "debug_info"):
        assert any(f" .z{section} " in row or (f" .{section} " in row and " C " in row) for row in rows)
    assert lines_of(start_target(newest(), "lines.py", library).pid) == ALL_LINES


def test_shared_debug_information(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN names that dwz has moved into a file that two libraries share THEN an inlined function has its line, and
    says in place of its name what it is."""
    sources = [tmp_path / "one.c", tmp_path / "two.c"]
    functions = [f"int pad_{number}(struct s{number} *x) {{ return x->member; }}" for number in range(300)]
    structs = [f"struct s{number} {{ int member; }};" for number in range(300)]
    libraries = []
    for source in sources:
        source.write_text("\n".join([SOURCE.read_text(), *structs, *functions]))
        libraries.append(source.with_suffix(".so"))
        subprocess.run(["gcc", "-O2", "-g", "-shared", "-fPIC", "-o", libraries[-1], source], check=True)
    subprocess.run(["dwz", "-m", tmp_path / "shared", *libraries], check=True)
    library = libraries[0].rename(tmp_path / "liblines.so")
    target = start_target(newest(), "lines.py", library)
    told = [(function.partition(".")[0], line) for function, _, line in lines_of(target.pid)]  # without .constprop.0
    whole = [(function, line) for function, _, line in ALL_LINES]
    assert [line for _, line in told] == [line for _, line in whole]
    assert set(told) - set(whole) == {("[inlined]", line) for name, line in whole if name.startswith("inlined")}
