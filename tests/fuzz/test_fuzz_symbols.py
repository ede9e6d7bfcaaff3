"""What tells names and lines, damaged: real libraries, maps and dumps of JIT compilers, objects told to debuggers.

Each input is a number, from which its damage follows. `python tests/fuzz/test_fuzz_symbols.py FIRST LAST [KIND]` tries
those between two numbers; readers run in processes of their own, of which it keeps one for many inputs.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest
from damage import LARGE, NUMBERS, SMALL, WITH_LINES, choose, damaged, libraries
from trying import try_all

from weft import _native, readers
from weft.readers import ReaderError
from weft.symbolize import dwarf, dwarf_reader, lines, lines_reader
from weft.symbolize.dwarf import DebugInformation
from weft.symbolize.resolver import Resolver
from weft.target.code import CodeModule
from weft.target.elf import ElfError, ElfFile
from weft.target.jit import JitCode
from weft.target.maps import Mapping
from weft.target.perfmap import functions_of_dump, functions_of_map, without_overlaps
from weft.target.unwinding import table_of_file

MAX_NAME = 1 << 17  # characters: of a name that is demangled and shown


def module_of(file: ElfFile) -> CodeModule:
    return CodeModule(1, "/library.so", None, file, table=_native.UnwindTable.build([]))


def assert_names(file: ElfFile, addresses: tuple[int, ...]) -> None:
    """Something is told of each address, and what could not be read is told, too."""
    module = module_of(file)
    with closing(Resolver(module)) as resolver:
        for address in addresses:
            for frame in resolver.at(address):
                assert 0 < len(frame.function) <= MAX_NAME
                assert frame.line >= 0
    assert all(isinstance(problem, str) and problem for problem in module.problems)


def on_library(tries: Callable[[ElfFile, tuple[int, ...]], None]) -> Callable[[int], None]:
    """With a damaged library, and addresses in its code; what makes it no ELF file ends the trial."""

    def try_library(number: int) -> None:
        chance = random.Random(number)
        library = choose(chance)
        with suppress(ElfError), ElfFile.of_bytes("library.so", library.damaged(chance)) as file:
            tries(file, library.addresses)

    return try_library


@on_library
def try_symbols(file: ElfFile, addresses: tuple[int, ...]) -> None:
    """Symbol tables, the linkage table, mini debug information, unwind tables."""
    assert_names(file, addresses)
    with suppress(ElfError):
        assert table_of_file(file).find(addresses[0])
    assert file.debug_link is None or "/" not in file.debug_link.name
    assert file.build_id is None or isinstance(file.build_id, str)


@on_library
def try_entries(file: ElfFile, addresses: tuple[int, ...]) -> None:
    """What symbolic leaves out of debug information."""
    read = dwarf_reader.DwarfFile(file.own_path, None)
    for address in addresses[::4]:
        with suppress(dwarf_reader.ReadError):
            path, line = read.line(address) or ("", 1)
            assert isinstance(path, str)
            assert line > 0
        with suppress(dwarf_reader.ReadError):
            assert isinstance(read.dwo(address), str | None)
        with suppress(dwarf_reader.ReadError):
            assert all(isinstance(name, str) for name in read.names(address))


def try_maps(number: int) -> None:
    """A perf map and a jitdump."""
    chance = random.Random(number)
    text = b"".join(b"%x %x py::f%d:/x.py\n" % (0x1000 + 64 * i, 32 + i % 64, i) for i in range(50))
    dump = struct.pack("<4sIIIIIQQ", b"DTiJ", 1, 40, 62, 0, 7, 0, 0)
    for i in range(50):
        load = struct.pack("<IIQQQQ", 7, 7, 0x1000 + 64 * i, 0x1000 + 64 * i, 64, i) + b"f%d\0" % i + b"\xc3" * 64
        dump += struct.pack("<IIQ", 0, 16 + len(load), i) + load
    text, dump = (damaged(chance, data, [(0, len(data))], 0) for data in (text, dump))
    found = without_overlaps([*functions_of_map(text), *functions_of_dump(dump)])
    assert all(0 <= begin < end <= 1 << 64 and name for begin, end, name in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))


def try_objects(number: int) -> None:
    """A list of objects that a JIT compiler tells of, in memory."""
    chance = random.Random(number)
    library = choose(chance)
    size = len(library.data)
    base, object_at = 0x10000, 0x20000
    entries = [(base + 0x18 + 0x20 * (i + 1), 0, object_at + 8 * i, size - 8 * i) for i in range(8)]
    told = bytearray(struct.pack("<IIQQ", 1, 0, 0, base + 0x18))
    told += b"".join(struct.pack("<QQQQ", *entry) for entry in entries)
    for _ in range(chance.randrange(4)):
        at = 8 * chance.randrange(len(told) // 8)
        value = chance.choice((*NUMBERS, base, base + 0x18, object_at, object_at + 1))
        told[at : at + 8] = value.to_bytes(8, "little")
    memory = _native.ImageMemory()
    memory.add_bytes(base, bytes(told))
    memory.add_bytes(object_at, library.damaged(chance))
    code = JitCode(None)
    for _ in range(2):
        code.look(memory, [base, 0, (1 << 64) - 8])  # type: ignore[arg-type]
    code.table_of(Mapping(0, 1 << 47, "r-xp", 0, "", 0, ""))
    assert all(begin < end and name is not None for begin, end, name in code.functions())


# By kind: how an input is tried, and how many of them `make test` tries.
ALL: dict[str, tuple[Callable[[int], None], int]] = {
    "lines": (on_library(assert_names), 40), "symbols": (try_symbols, 500), "entries": (try_entries, 400),
    "maps": (try_maps, 1000), "objects": (try_objects, 500),
}  # fmt: skip
IN_READERS = ("lines", "entries")  # processes of their own, which may end


@pytest.mark.parametrize("kind", ALL)
def test_damaged(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN damaged files and memory THEN what cannot be read is told of, and names are found for the rest."""
    tries, count = ALL[kind]
    if kind == "symbols":
        monkeypatch.setattr(lines, "start_reader", _no_reader)
    for number in range(count):
        try:
            tries(number)
        except Exception as error:
            raise AssertionError(f"input {number}") from error


def _no_reader(*_: object) -> NoReturn:
    raise ReaderError("no reader")


def test_lines_that_need_endless_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN debug information whose reader gets too little memory THEN the reader ends, and weft tells of it."""
    monkeypatch.setattr(readers, "_MEMORY", 1 << 20)
    monkeypatch.setattr(readers, "_MEMORY_PER_BYTE", 0)
    library = libraries(LARGE)[0]
    with ElfFile.of_bytes("library.so", library.data) as file:
        module = module_of(file)
        assert lines.lines_of(module, file) is None
        (problem,) = module.problems
        assert "the debug information in" in problem


# DWARF 4: one unit with a thousand functions, each with the same 100,000 ranges.
ENDLESS = """
        .text
begin:  .skip 64
end:
        .section .debug_abbrev,"",@progbits
        .uleb128 1; .uleb128 0x11; .byte 1; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 7; .byte 0, 0
        .uleb128 2; .uleb128 0x2e; .byte 0; .uleb128 0x55; .uleb128 0x17; .byte 0, 0
        .byte 0
        .section .debug_info,"",@progbits
        .long after - version
version: .short 4; .long 0; .byte 8
        .uleb128 1; .quad begin; .quad end - begin
        .rept 1000
        .uleb128 2; .long 0
        .endr
        .byte 0
after:
        .section .debug_ranges,"",@progbits
        .rept 100000
        .quad 1, 2
        .endr
        .quad 0, 0
"""


def test_entries_that_need_endless_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN debug information whose entries take many minutes to read THEN their reader ends, and weft tells of it."""
    monkeypatch.setattr(readers, "_SECONDS", 1)
    source, library = tmp_path / "endless.s", tmp_path / "endless.so"
    source.write_text(ENDLESS)
    subprocess.run(["gcc", "-shared", "-nostdlib", source, "-o", library], check=True)
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    address = next(int(row.split()[0], 16) for row in symbols.splitlines() if row.endswith(" t begin"))
    with ElfFile(str(library)) as file, closing(DebugInformation(file, None)) as read:
        assert read.line(address) is None
        with pytest.raises(ReaderError, match="reading it takes too long"):
            read.names(address)


@pytest.mark.parametrize("source", [SMALL, LARGE])
def test_sound(source: str) -> None:
    """GIVEN the libraries as they are THEN nothing is told of, and those with debug information have lines."""
    for number, library in enumerate(libraries(source)):
        with ElfFile.of_bytes("library.so", library.data) as file:
            module = module_of(file)
            begins = {address for address, _, name in file.functions() if name == b"outer"}
            assert begins < set(library.addresses)
            with closing(Resolver(module)) as resolver:
                (frame, *_) = resolver.at(*begins)
            assert frame.function == "outer"
            assert (frame.line > 0) == (number < WITH_LINES)
            assert module.problems == []
            read = dwarf_reader.DwarfFile(file.own_path, None)
            if number < WITH_LINES:
                assert read.names(*begins) == ["outer"]


def _symcache_here(file: ElfFile) -> bytes:
    try:
        return lines_reader.symcache_of(file.own_path)
    except lines_reader.READ_ERRORS as error:
        raise ReaderError(str(error)) from error


def main() -> None:
    """Try the inputs of some kinds, or of all, with the readers in the process that tries them."""
    first, last = map(int, sys.argv[1:3])
    dwarf.start_reader = _no_reader
    assert all(map(libraries, (SMALL, LARGE)))  # made once, for all processes
    for kind in sys.argv[3:] or ALL:
        lines.start_reader = _no_reader if kind == "symbols" else lambda _, files: files[0]
        lines.answer_of = _symcache_here
        ended = try_all(ALL[kind][0], first, last)
        if ended and kind not in IN_READERS:
            sys.exit(f"{kind}: these have ended weft itself")
        print(f"{kind}: {last - first:,} inputs; readers ended: {dict(ended)}", flush=True)


if __name__ == "__main__":
    main()
