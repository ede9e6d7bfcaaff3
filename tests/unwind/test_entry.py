"""Stacks of programs whose start files have no CFI (musl) end with the instructions that they begin with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from native_stacks import gdb_stack, own_stack
from weft_command import wait_until
from zig import MUSL, compile_with_zig

from weft import _native
from weft.target.elf import ElfFile
from weft.target.unwinding import table_of_file

PROGRAM = """
#include <unistd.h>
static volatile int depth;
__attribute__((noinline)) int deeper(int n) { return n == 0 ? (int)read(0, (void*)&depth, 1) : deeper(n - 1) + depth; }
int main() { return deeper(20); }
"""


@pytest.fixture(scope="session", params=["-static", "-static-pie"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that waits in read(), with a C library of its own."""
    folder = tmp_path_factory.mktemp("musl")
    (folder / "waits.c").write_text(PROGRAM)
    options = ["-O1", "-fno-omit-frame-pointer", request.param]
    return compile_with_zig(folder / "waits", *options, folder / "waits.c", target=MUSL)


def test_stack(program: Path, tmp_path: Path) -> None:
    """THEN the stack is whole, and equal to gdb's."""
    with subprocess.Popen([program], stdin=subprocess.PIPE) as target:
        wait_until(lambda: Path(f"/proc/{target.pid}/syscall").read_text().startswith("0 0x0 "), "it reads its stdin")
        frames, loss = own_stack(target.pid)
        expected = gdb_stack(target.pid, tmp_path, None)
        assert target.stdin is not None
        target.stdin.close()
    assert loss is None
    pcs = [pc for pc, *_ in frames]
    assert len(pcs) > 20
    assert pcs == expected[: len(pcs)]
    # What gdb may add is none: it takes what lies above the program's first frame, its arguments, for return addresses.
    with ElfFile(str(program)) as file:
        assert file.entry is not None
        assert 0 < (pcs[-1] - file.entry) % 4096 < 64


def test_entry_with_cfi() -> None:
    """GIVEN a program with glibc's start files THEN their CFI holds, which says the same, and nothing is added."""
    with ElfFile(sys.executable) as file:
        entry, frames = file.entry, file.section(".eh_frame")
        assert entry is not None
        assert frames is not None
        section = (file.read(frames.offset, frames.size), frames.address, True)
        told, own = table_of_file(file), _native.UnwindTable.build([section])
    assert own.find(entry)["CFA"] == "end"
    assert [told.find(entry + i) for i in range(128)] == [own.find(entry + i) for i in range(128)]


def test_a_function_close_behind_the_entry(tmp_path: Path) -> None:
    """THEN its own rules hold."""
    source = tmp_path / "near.s"
    source.write_text("""
.globl _start
_start: call near
    ud2
near:
    .cfi_startproc
    push %rbx
    .cfi_def_cfa_offset 16
    pop %rbx
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
""")
    subprocess.run(["gcc", "-nostdlib", "-static", "-o", tmp_path / "near", source], check=True)
    with ElfFile(str(tmp_path / "near")) as file:
        table = table_of_file(file)
        entry = file.entry
    assert entry is not None
    assert table.find(entry)["CFA"] == table.find(entry + 6)["CFA"] == "end"
    assert table.find(entry + 7)["CFA"] == "rsp+8"
    assert table.find(entry + 8)["CFA"] == "rsp+16"
