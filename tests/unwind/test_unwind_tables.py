"""Unwind tables say what readelf says, of every row of real modules, and survive what is no table."""

from __future__ import annotations

import random
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from interpreters import Interpreter

from weft import _native
from weft.target.elf import ElfFile
from weft.target.unwinding import table_of_file

REGISTERS = ("rbx", "rbp", "r12", "r13", "r14", "r15", "ra")
LIBRARIES = Path("/lib/x86_64-linux-gnu")
# glibc, hand-written assembly, C++, the lazy PLT and signal frames.
MODULES = [LIBRARIES / name for name in ("libc.so.6", "libcrypto.so.3", "libstdc++.so.6", "ld-linux-x86-64.so.2")]


def rows_of(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row of each function as readelf interprets it: its address, and its columns by name."""
    command = ["readelf", "--debug-dump=frames-interp", "--wide", path]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # 1: it has warned of something
    end, columns = 0, []
    for line in text.splitlines():
        if entry := re.search(r" (CIE|FDE)\b(?:.*\.\.([0-9a-f]+))?", line):
            end = int(entry[2], 16) if entry[2] else 0
        words = re.sub(r" r\d+ \((\w+)\)", r" \1", line).split()  # "r9 (r9)": the value lies in that register
        if words[:1] == ["LOC"]:
            columns = words[1:]
        elif len(words) == len(columns) + 1 and re.fullmatch("[0-9a-f]{16}", words[0]) and int(words[0], 16) < end:
            yield int(words[0], 16), dict(zip(columns, words[1:], strict=True))


def assert_same(told: dict[str, str | bool], row: dict[str, str]) -> None:
    """Our rule is readelf's. Of expressions it does not say which; the tests of stacks show that they are right."""
    if row["ra"] == "u":
        assert told["CFA"] == "end"
        return
    if (stack := row.get("rsp", "u")) not in ("u", "s", "exp"):  # longjmp, setcontext: the CFA is not the stack pointer
        base, offset = row["CFA"].split("+")
        assert told["CFA"] == (f"*({base}+{int(offset) + int(stack[2:])})" if stack.startswith("c+") else f"{stack}+0")
        return
    assert told["CFA"] == row["CFA"] or row["CFA"] == "exp"
    for register in REGISTERS:
        expected = row.get(register, "c-8" if register == "ra" else "u")
        if expected == "exp":
            assert str(told[register]).startswith("*("), register
        elif expected in ("u", "s"):
            assert told[register] in ("same", "lost"), register
        else:
            assert told[register] == expected, register


def assert_as_readelf(path: Path, *, least: int) -> None:
    with ElfFile(str(path)) as file:
        table = table_of_file(file)
    rows = unknown = 0
    for address, row in rows_of(path):
        told = table.find(address)
        if row["CFA"] == "exp" and told["CFA"] == "none":
            unknown += 1
        else:
            assert_same(told, row)
        rows += 1
    assert rows >= least
    assert unknown <= 3  # libcrypto: an address computed from r9
    assert table.losses == {"functions": 0, "expressions": unknown, "overlaps": 0}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_libraries(path: Path) -> None:
    assert_as_readelf(path.resolve(), least=2000)


def test_interpreters(interpreter: Interpreter) -> None:
    """GIVEN the file that holds the eval loop, as compilers of ten years made it."""
    executable = interpreter.executable.resolve()
    shared = sorted(executable.parent.parent.glob("lib/libpython*.so.1.0"))
    assert_as_readelf(shared[0] if shared else executable, least=20_000)


def test_debug_frame(tmp_path: Path) -> None:
    """GIVEN code of which only .debug_frame tells, since it was compiled without unwind tables, but for debuggers."""
    source, library = tmp_path / "code.c", tmp_path / "code.so"
    source.write_text("""
int used(int *, int, int, int, int, int, int);
int code(int a, int b, int c) {
    int kept[40] = {a, b, c};
    for (int i = 0; i < c; ++i) {
        if (used(kept, a, b, c, i, i + a, i + b)) return i;
        a += used(kept, i, a, b, c, a + b, b + c);
    }
    return kept[a & 31] + b;
}
""")
    options = ["-g", "-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-shared", "-fPIC", "-nostdlib"]
    subprocess.run(["gcc", *options, "-o", library, source], check=True)
    with ElfFile(str(library)) as file:
        eh_frame = file.section(".eh_frame")
    assert eh_frame is None or eh_frame.size == 0
    assert_as_readelf(library, least=20)


def damaged(whole: bytes, *, seed: int, most: int, count: int) -> Iterator[bytes]:
    """So many copies of which up to `most` bytes are changed."""
    chance = random.Random(seed)
    for _ in range(count):
        copy = bytearray(whole)
        for _ in range(chance.randrange(1, most)):
            copy[chance.randrange(len(whole))] = chance.randrange(256)
        yield bytes(copy)


def test_a_table_is_kept() -> None:
    with ElfFile(str(MODULES[0])) as file:
        table = table_of_file(file)
    again = _native.UnwindTable.load(table.save())
    assert again is not None
    assert again.save() == table.save()
    assert len(again) == len(table) > 20_000
    for address in range(0, 1 << 21, 777):
        assert again.find(address) == table.find(address)


def test_what_is_no_table() -> None:
    """GIVEN a table of which bytes are missing or changed THEN it is refused, or still answers for every address."""
    with ElfFile(str(MODULES[3])) as file:
        whole = table_of_file(file).save()
    assert _native.UnwindTable.load(b"") is None
    for size in range(0, len(whole), 97):
        assert _native.UnwindTable.load(whole[:size]) is None
    refused = 0
    for copy in damaged(whole, seed=1, most=4, count=3000):
        table = _native.UnwindTable.load(copy)
        refused += table is None
        if table is not None:
            for address in range(0, 1 << 18, 13_107):
                table.find(address)
    assert refused > 30


def test_damaged_sections() -> None:
    """GIVEN CFI of which bytes are changed THEN what cannot be used is counted, and no address is without an answer."""
    with ElfFile(str(MODULES[3])) as file:
        section = file.section(".eh_frame")
        assert section
        whole = file.read(section.offset, section.size)
    lost = 0
    for number, copy in enumerate(damaged(whole, seed=2, most=30, count=2000)):
        table = _native.UnwindTable.build([(copy, section.address, number % 10 != 0)])
        lost += sum(table.losses.values()) > 0
        for address in (0, section.address, *range(1, 1 << 64, 1 << 61)):
            table.find(address)
    assert lost > 500


def frames_with(
    shared: bytes, *, functions: int, first: int = 0, step: int = 16, signal: bool = False, own: bytes = b""
) -> bytes:
    """An .eh_frame of functions of 16 bytes that share these rules, with the same ones of their own behind them; before
    them stands that the CFA is rsp + 8."""
    augmentation = b"zRS" if signal else b"zR"
    cie = bytes(4) + b"\1" + augmentation + b"\0\x01\x78\x10\x01\0" + b"\x0c\x07\x08\x90\x01" + shared
    data = struct.pack("<I", len(cie)) + cie
    for number in range(functions):
        data += struct.pack("<IIQQB", 21 + len(own), len(data) + 4, first + step * number, 16, 0) + own
    return data


def cfas(table: _native.UnwindTable, *places: int) -> list[str | bool]:
    """How the CFA is found at each."""
    return [table.find(place)["CFA"] for place in places]


@pytest.mark.parametrize("padding", [0, 300])
def test_functions_with_the_same_program(padding: int) -> None:
    """GIVEN many functions whose rules are written alike THEN each has its own, also where those before them, that
    others share, differ, or an address in them is absolute."""
    own = b"\x44\x0e\x18" + bytes(padding)  # from 4 bytes on, rsp + 24
    common = frames_with(b"\x0e\x10", functions=3, first=0x100, own=own)  # rsp + 16
    table = _native.UnwindTable.build([(frames_with(b"", functions=3, own=own), 0, True), (common, 0, True)])
    for begin in (0, 0x10, 0x20):
        assert cfas(table, begin, begin + 3, begin + 4, begin + 15) == ["rsp+8", "rsp+8", "rsp+24", "rsp+24"]
        assert cfas(table, begin + 0x100, begin + 0x103, begin + 0x104) == ["rsp+16", "rsp+16", "rsp+24"]
    to_0x18 = b"\x01" + struct.pack("<Q", 0x18) + b"\x0e\x10" + bytes(padding)  # from there on, rsp + 16
    table = _native.UnwindTable.build([(frames_with(b"", functions=3, own=to_0x18), 0, True)])
    assert cfas(table, 0, 0xF, 0x10, 0x17, 0x18, 0x1F, 0x20) == ["rsp+8"] * 4 + ["rsp+16"] * 3
    assert not any(table.losses.values())
    for own, lost in ((b"\x0b", "functions"), (b"\x0f\x01\x96", "expressions")):  # what nobody has remembered; nonsense
        table = _native.UnwindTable.build([(frames_with(b"", functions=100, own=own + bytes(padding)), 0, True)])
        assert table.losses == {"functions": 0, "expressions": 0, "overlaps": 0, lost: 100}
        assert not table.covers(16 * 99)


def test_shared_rules_without_end() -> None:
    """GIVEN functions that share more rules than any compiler writes THEN these are lost: each would run them all."""
    sound = _native.UnwindTable.build([(frames_with(bytes(16), functions=100), 0, True)])
    assert sound.find(16 * 99)["CFA"] == "rsp+8"
    assert not any(sound.losses.values())
    hostile = _native.UnwindTable.build([(frames_with(bytes(1 << 20), functions=20_000), 0, True)])
    assert hostile.losses["functions"] == 20_000
    assert not hostile.covers(0)


def test_functions_without_cfi() -> None:
    """GIVEN functions without CFI, in gaps of several pages, before and behind all that is known THEN their beginnings
    tell; of those that overlap others or what is known, and of such that are too far away, nothing is told."""
    code = bytes.fromhex("53 4883ec10")  # push %rbx; sub $16, %rsp
    # A signal frame whose CFA is an expression that nobody writes: a rule of its own that tells nothing.
    odd = frames_with(b"\x0f\x01\x96", functions=1, first=0x11800, signal=True)
    known = _native.UnwindTable.build(
        [(frames_with(b"", functions=3, first=0x10000, step=0x3000), 0, True), (odd, 0, True)]
    )
    assert known.find(0x11800) != known.find(0x11810)
    assert not known.covers(0x11800)
    held = [(0x4000, 0x4010), (0x10010, 0x10020), (0x10800, 0x12FFF), (0x13010, 0x16000), (0x18000, 0x18010)]
    left_out = [(0x11000, 0x11010), (0x12FFF, 0x13001), (0x15FFF, 0x17000), (0x16008, 0x16018), (1 << 40, 1 << 41)]
    table = known.with_functions([(begin, end, code) for begin, end in sorted(held + left_out)])
    assert table.losses["overlaps"] == len(left_out)
    for begin, end in held:
        assert [table.find(begin + offset)["CFA"] for offset in (0, 1, 4)] == ["rsp+8", "rsp+16", "rsp+16"]
        assert {table.find(place)["CFA"] for place in range(begin + 5, end)} == {"rsp+32"}
    unknown = (0x3FFF, 0x4010, 0x107FF, 0x12FFF, 0x16017, 0x17FFF, 0x18010, 1 << 40)
    for address in unknown:
        assert not table.covers(address)
    mixed = [place for begin, end in held for place in (begin, end - 1)] + list(unknown)
    symbols = b"".join(struct.pack("<IBBHQQ", 1, 18, 0, 1, place, 8) for place in mixed)
    assert table.uncovered(symbols) == list(range(2 * len(held), len(mixed)))
    top = _native.UnwindTable.build([(frames_with(b"", functions=1, first=(1 << 64) - 4096), 0, True)])
    assert top.with_functions([(0x1000, 0x1010, code)]).losses["overlaps"] == 1
    for begin in (0x10000, 0x13000, 0x16000):
        assert {known.find(place)["CFA"] for place in range(begin, begin + 16)} == {"rsp+8"}
        assert {table.find(place)["CFA"] for place in range(begin, begin + 16)} == {"rsp+8"}


def test_a_function_up_to_the_last_address(tmp_path: Path) -> None:
    """GIVEN a file that tells of a function without CFI that ends with all addresses THEN nothing is told of it."""
    source, library = tmp_path / "far.s", tmp_path / "far.so"
    source.write_text(
        ".globl far; .type far, @function\nfar: push %rbx; pop %rbx; ret; .skip 253; .size far, . - far\n"
    )
    flags = ["-shared", "-nostdlib", "-Wl,-Ttext=0xffffffffffffff00"]
    begin = (1 << 64) - 256
    subprocess.run(["gcc", *flags, source, "-o", library], check=True)
    with ElfFile(str(library)) as file:
        assert (begin, 256, b"far") in file.functions()
        assert not table_of_file(file).covers(begin)


@pytest.mark.parametrize("section", [".init", ".fini"])
def test_functions_that_are_a_section(tmp_path: Path, section: str) -> None:
    """GIVEN a library as gcc links it, whose _init and _fini have neither CFI nor a size, THEN their stack frames are
    known up to their end: at each instruction as large as objdump shows."""
    source, library = tmp_path / "empty.c", tmp_path / "empty.so"
    source.write_text("int nothing;\n")
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    command = ["objdump", "--disassemble", "--section", section, "--no-show-raw-insn", library]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    instructions = re.findall(r"^ *([0-9a-f]+):\s+(.+)$", text, re.MULTILINE)
    with ElfFile(str(library)) as file:
        table = table_of_file(file)
    size, seen = 8, set()
    for address, what in instructions:
        if re.match(r"add +\$0x8,%rsp", what):
            break  # its end, which is tried
        assert table.find(int(address, 16))["CFA"] == f"rsp+{size}", (address, what)
        seen.add(size)
        size += 8 if re.match(r"sub +\$0x8,%rsp", what) else 0
    assert seen == ({8, 16} if section == ".init" else {8})
