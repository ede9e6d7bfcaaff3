"""Where functions are probed. The first instructions are those of real libcs, as objdump shows them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from interpreters import chroots

from weft.collect.bpf.allocator import entries_of
from weft.collect.bpf.prologue import first_emulated
from weft.target.elf import ElfFile

REST = "90" * 16


@pytest.mark.parametrize(
    ("code", "offset"),
    [
        ("41 54 55 53", 0),  # glibc 2.36, malloc: push %r12
        ("48 8b 05 09 81 14 00 41 54", 7),  # 2.31, malloc: mov 0x148109(%rip),%rax; push %r12
        ("48 85 ff 78 71", 3),  # 2.43, malloc: test %rdi,%rdi; js
        ("48 89 f8 48 f7 e6 0f 80 9c 01 00 00", 6),  # 2.43, calloc: mov %rdi,%rax; mul %rsi; jo
        ("49 89 f1 48 85 ff 0f 84 44 03 00 00", 6),  # 2.43, realloc: mov %rsi,%r9; test %rdi,%rdi; je
        ("80 3d 71 0e 14 00 00 74 07", 7),  # 2.36, aligned_alloc: cmpb $0,0x140e71(%rip); je
        ("48 8b 14 24 e9 77 f6 ff ff", 4),  # 2.31, memalign: mov (%rsp),%rdx; jmp
        ("48 8d 47 ff 48 85 f8 75 0f", 7),  # 2.43, aligned_alloc: lea -1(%rdi),%rax; test %rdi,%rax; jne
        ("f3 0f 1e fa 41 54", 4),  # endbr64; push %r12
    ],
)
def test_behind_what_does_no_harm(code: str, offset: int) -> None:
    """GIVEN instructions that leave the arguments alone THEN the first one that the kernel emulates is taken."""
    assert first_emulated(bytes.fromhex(code + REST), third=False) == offset


@pytest.mark.parametrize(
    "code",
    [
        "89 c7 55",  # mov %eax,%edi: the first argument is gone
        "48 8b 37 55",  # mov (%rdi),%rsi
        "48 83 ec 18 55",  # sub $0x18,%rsp: the return address is elsewhere
        "48 89 c4 55",  # mov %rax,%rsp
        "48 89 07 55",  # mov %rax,(%rdi): memory is written, which may be anything
        "e8 00 00 00 00 55",  # call
        "c3 55",  # ret
        "0f 05 55",  # syscall
        "f7 d8 55",  # neg %eax: not known
        "64 48 8b 04 25 28 00 00 00 55",  # mov %fs:0x28,%rax: not known
    ],
)
def test_harm_ends_the_search(code: str) -> None:
    """GIVEN an instruction before a push that changes what is asked for, or is not known THEN the entry is taken."""
    assert first_emulated(bytes.fromhex(code + REST), third=False) == 0


def test_the_third_argument() -> None:
    """GIVEN a multiplication, which writes %rdx THEN it does harm where that is the size."""
    code = bytes.fromhex("48 f7 e6 0f 80 9c 01 00 00" + REST)
    assert first_emulated(code, third=False) == 3
    assert first_emulated(code, third=True) == 0


def test_the_code_ends() -> None:
    """GIVEN a function that is cut off anywhere THEN nothing beyond it is looked at."""
    code = bytes.fromhex("48 8b 05 09 81 14 00 48 85 ff")
    for size in range(len(code) + 1):
        assert first_emulated(code[:size], third=False) == 0


@pytest.mark.parametrize("tree", [Path("/"), *chroots()], ids=lambda tree: tree.name or "host")
def test_entries_are_instructions(tree: Path, program: Callable[[str], str]) -> None:
    """GIVEN the libc of a system THEN each place of a probe is the beginning of an instruction, as objdump has them."""
    libc = tree / "lib/x86_64-linux-gnu/libc.so.6"
    with ElfFile(str(libc)) as file:
        entries = entries_of(file)
        functions = file.symbols(tuple(entry.name for entry in entries))
        text = next(section for section in file.sections if section.name == ".text")
    assert {"malloc", "calloc", "realloc", "posix_memalign"} <= {entry.name for entry in entries}
    for entry in entries:
        address = entry.offset - text.offset + text.address
        begin, end = f"--start-address={functions[entry.name]:#x}", f"--stop-address={address + 16:#x}"
        shown = subprocess.run(
            [program("objdump"), "-d", begin, end, libc], check=True, capture_output=True, text=True
        ).stdout
        assert re.search(rf"^\s+{address:x}:\t", shown, re.MULTILINE), entry
