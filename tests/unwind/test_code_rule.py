"""What code tells without unwind information is what the compiler's own unwind information says of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft import _native
from weft.target.elf import ElfFile
from weft.target.unwinding import table_of_file

LIBC = Path("/lib/x86_64-linux-gnu/libc.so.6")
REGISTERS = ("rbx", "rbp", "r12", "r13", "r14", "r15", "ra")
AHEAD = 64  # bytes


def instructions(path: Path) -> Iterator[tuple[int, bytes]]:
    """The address of each instruction, and the bytes from there on, as objdump divides them."""
    command = ["objdump", "--disassemble", "--section=.text", "--no-show-raw-insn", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as objdump, ElfFile(str(path)) as file:
        section = file.section(".text")
        assert objdump.stdout is not None
        assert section is not None
        text = file.read(section.offset, section.size)
        for line in objdump.stdout:
            if found := re.match(r" +([0-9a-f]+):", line):
                address = int(found[1], 16)
                yield address, text[address - section.address :][:AHEAD]


def assert_as_compiled(path: Path, *, least: int) -> None:
    with ElfFile(str(path)) as file:
        table = table_of_file(file)
    compared, wrong = 0, []
    for address, code in instructions(path):
        told = _native.rule_of_code(code)
        row = table.find(address)
        base = str(row["CFA"])[:3]
        if told is None or not str(told["CFA"]).startswith(base) or base not in ("rsp", "rbp"):
            continue  # with a frame pointer the CFA can be told in two ways
        compared += 1
        if told["CFA"] != row["CFA"] or any(told[name] != row[name] for name in REGISTERS if told[name] != "same"):
            wrong.append((hex(address), told, row))
    print(f"{path.name}: {compared:,} compared, {len(wrong)} wrong", wrong[:4])
    assert compared >= least
    assert len(wrong) <= compared // 1000


def test_libc() -> None:
    """GIVEN each instruction from which code goes straight to a return THEN its rule is the compiler's."""
    assert_as_compiled(LIBC.resolve(), least=10_000)


# At each instruction of CPython's perf trampolines (Python/asm_trampoline.S), with and without a frame pointer, and of
# the entries of procedure linkage tables that go through their slot, as lld and ld write them.
TRAMPOLINES = {
    "4883ec08 ffd1 4883c408 c3": {0: 8, 4: 16, 6: 16, 10: 8},
    "f30f1efa 4883ec08 ffd1 4883c408 c3": {0: 8, 4: 8, 8: 16, 10: 16, 14: 8},
    "55 4889e5 ffd1 5d c3": {0: 8, 1: 16, 4: 16, 6: 16, 7: 8},
    "ff2500100000 6801000000 e9d0ffffff": {0: 8},
    "f30f1efa f2ff2500100000 0f1f4400": {0: 8, 4: 8},
}


@pytest.mark.parametrize("code", TRAMPOLINES)
def test_trampolines(code: str) -> None:
    """GIVEN trampolines THEN the caller of each of their instructions is known."""
    whole = bytes.fromhex(code)
    found = {at: _native.rule_of_code(whole[at:]) for at in TRAMPOLINES[code]}
    assert {at: rule and rule["CFA"] for at, rule in found.items()} == {
        at: f"rsp+{size}" for at, size in TRAMPOLINES[code].items()
    }


@pytest.mark.parametrize(
    "code",
    [
        "",
        "c9",
        "90" * 64,
        "5c c3",
        "4883c4",
        "4881c4ffffff7f c3",
        "74 00 c3",
        "ff e1",
        "41",
        "4883ec08 5b c3",
        "50 5b c3",
    ],
    ids=str,
)
def test_what_is_not_straight(code: str) -> None:
    """GIVEN code that branches, ends early, or takes the stack pointer from memory THEN nothing is said of it."""
    assert _native.rule_of_code(bytes.fromhex(code)) is None
