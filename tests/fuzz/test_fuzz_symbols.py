"""What tells names and lines, damaged: real libraries, maps and dumps of JIT compilers, objects told to debuggers.

Each input is a number, from which its damage follows. `python tests/fuzz/test_fuzz_symbols.py FIRST LAST [KIND]` tries
those between two numbers.
"""

from __future__ import annotations

import functools
import lzma
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from weft import _native, readers
from weft.readers import ReaderError
from weft.symbolize import lines
from weft.symbolize.dwarf import DebugInformation
from weft.symbolize.resolver import Resolver
from weft.target.code import CodeModule
from weft.target.elf import ElfError, ElfFile
from weft.target.jit import JitCode
from weft.target.maps import Mapping
from weft.target.perfmap import functions_of_dump, functions_of_map, without_overlaps
from weft.target.unwinding import table_of_file

SOURCE = r"""
#include <string>
#include <vector>
namespace space {
template <typename T> inline T twice(T value) { return value + value; }
struct Shape { virtual ~Shape() = default; virtual double area() const { return twice(side) * side; }
    double side = 2; };
struct Square final : Shape { double area() const override { return Shape::area() + 1; } };
}
static inline int inner(int x) { return x * 3 + 1; }
extern "C" int outer(int n) { std::vector<int> v; for (int i = 0; i < n; ++i) v.push_back(inner(i)); return v.size(); }
extern "C" double area(const space::Shape* shape) { return shape->area() + space::Square().area(); }
std::string text(int n) { return std::string(n, 'x') + std::to_string(n); }
"""
FLAGS = (["-gdwarf-4"], ["-gdwarf-5"], ["-gdwarf-5", "-gz=zlib"], ["-g0"])
CODE = range(0x1000, 0x4000, 0x40)
NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFF0, 0xFFFFFFFF, 1 << 33, 1 << 40, 1 << 63, (1 << 64) - 1)
MAX_NAME = 1 << 17  # characters: of a name that is demangled and shown

Section = tuple[int, int]  # where it lies in the file


@functools.cache
def libraries() -> list[tuple[bytes, list[Section], int]]:
    """Shared objects with DWARF of each kind, without any, and with mini debug information.

    Their bytes, their sections, and where their headers are.
    """
    made = []
    with tempfile.TemporaryDirectory() as folder:
        source, library, packed = (Path(folder) / name for name in ("library.cpp", "library.so", "packed"))
        source.write_text(SOURCE)
        for flags in FLAGS:
            subprocess.run(["g++", *flags, "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
            made.append(_read(library))
        packed.write_bytes(lzma.compress(library.read_bytes()))
        subprocess.run(["objcopy", "--strip-all", "--add-section", f".gnu_debugdata={packed}", library], check=True)
        made.append(_read(library))
    return made


def _read(path: Path) -> tuple[bytes, list[Section], int]:
    data = path.read_bytes()
    with ElfFile(str(path)) as file:
        names = (".text", ".comment")
        sections = [(s.offset, s.size) for s in file.sections if s.size and s.type != 8 and s.name not in names]
    return data, sections, int.from_bytes(data[40:48], "little")


def damaged(chance: random.Random, data: bytes, sections: Sequence[Section], headers: int) -> bytes:
    """With other bytes, numbers and copies in some sections, and now and then in the headers, or cut."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16, 64))):
        begin, size = chance.choice(sections)
        at = begin + chance.randrange(min(size, chance.choice((16, 64, size))))
        match chance.randrange(4):
            case 0:
                out[at] = chance.randrange(256)
            case 1:
                width = chance.choice((1, 2, 4, 8))
                out[at : at + width] = chance.choice(NUMBERS).to_bytes(8, "little")[:width]
            case 2:
                out[at : at + 10] = chance.choice((b"\xff", b"\x80", b"\0")) * 10
            case 3:
                other = begin + chance.randrange(size)
                piece = out[other : other + chance.randrange(1, 64)]
                out[at : at + len(piece)] = piece
    if chance.random() < 0.2:
        at = headers + 8 * chance.randrange((len(data) - headers) // 8)
        out[at : at + 8] = chance.choice((*NUMBERS, chance.randrange(len(data)))).to_bytes(8, "little")
    return bytes(out[: len(data) if chance.random() < 0.9 else chance.randrange(64, len(data))])


def module_of(file: ElfFile) -> CodeModule:
    return CodeModule(1, "/library.so", None, file, table=_native.UnwindTable.build([]))


def assert_names(module: CodeModule) -> None:
    """Something is told of each address, and what could not be read is told, too."""
    with closing(Resolver(module)) as resolver:
        for address in CODE:
            for frame in resolver.at(address):
                assert 0 < len(frame.function) <= MAX_NAME
                assert frame.line >= 0
    assert all(isinstance(problem, str) and problem for problem in module.problems)


def file_of(number: int) -> ElfFile:
    chance = random.Random(number)
    return ElfFile.of_bytes("library.so", damaged(chance, *chance.choice(libraries())))


def try_symbols(number: int) -> None:
    """Symbol tables, the linkage table, mini debug information, unwind tables."""
    with suppress(ElfError), file_of(number) as file:
        assert_names(module_of(file))
        with suppress(ElfError):
            assert table_of_file(file).find(CODE[0])
        assert file.debug_link is None or "/" not in file.debug_link.name
        assert file.build_id is None or isinstance(file.build_id, str)


def try_lines(number: int) -> None:
    """The same with lines: DWARF is read by a process of its own."""
    with suppress(ElfError), file_of(number) as file:
        assert_names(module_of(file))


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
    data, sections, headers = chance.choice(libraries())
    base, object_at = 0x10000, 0x20000
    entries = [(base + 0x18 + 0x20 * (i + 1), 0, object_at + 8 * i, len(data) - 8 * i) for i in range(8)]
    told = bytearray(struct.pack("<IIQQ", 1, 0, 0, base + 0x18))
    told += b"".join(struct.pack("<QQQQ", *entry) for entry in entries)
    for _ in range(chance.randrange(4)):
        at = 8 * chance.randrange(len(told) // 8)
        value = chance.choice((*NUMBERS, base, base + 0x18, object_at, object_at + 1))
        told[at : at + 8] = value.to_bytes(8, "little")
    memory = _native.ImageMemory()
    memory.add_bytes(base, bytes(told))
    memory.add_bytes(object_at, damaged(chance, data, sections, headers))
    code = JitCode(None)
    for _ in range(2):
        code.look(memory, [base, 0, (1 << 64) - 8])  # type: ignore[arg-type]
    code.table_of(Mapping(0, 1 << 47, "r-xp", 0, "", 0, ""))
    assert all(begin < end and name is not None for begin, end, name in code.functions())


ALL: dict[str, tuple[Callable[[int], None], int]] = {
    "lines": (try_lines, 40), "symbols": (try_symbols, 150), "maps": (try_maps, 1000), "objects": (try_objects, 300),
}  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_damaged(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN damaged files and memory THEN what cannot be read is told of, and names are found for the rest."""
    tries, count = ALL[kind]
    if kind == "symbols":
        monkeypatch.setattr(lines, "start_reader", _no_lines)
    for number in range(count):
        try:
            tries(number)
        except Exception as error:
            raise AssertionError(f"input {number}") from error


def _no_lines(*_: object) -> NoReturn:
    raise ReaderError("no reader")


def test_lines_that_need_endless_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN debug information whose reader gets too little memory THEN the reader ends, and weft tells of it."""
    monkeypatch.setattr(readers, "_MEMORY", 1 << 20)
    monkeypatch.setattr(readers, "_MEMORY_PER_BYTE", 0)
    data, _, _ = libraries()[0]
    with ElfFile.of_bytes("library.so", data) as file:
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


def test_sound() -> None:
    """GIVEN the libraries as they are THEN nothing is told of, and those with debug information have lines."""
    for number, (data, _, _) in enumerate(libraries()):
        with ElfFile.of_bytes("library.so", data) as file:
            module = module_of(file)
            begins = {address for address, _, name in file.functions() if name == b"outer"}
            with closing(Resolver(module)) as resolver:
                (frame, *_) = resolver.at(*begins)
            assert frame.function == "outer"
            assert (frame.line > 0) == (number < 3)
            assert module.problems == []


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:3])
    for name in sys.argv[3:] or ALL:
        if name == "symbols":
            lines.start_reader = _no_lines
        for number in range(first, last):
            try:
                ALL[name][0](number)
            except BaseException:
                print(f"{name}: input {number}", flush=True)
                raise
        print(f"{name}: {last - first} inputs", flush=True)
