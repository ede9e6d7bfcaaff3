"""Files that a target has mapped to run, and that say what cannot be."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from interpreters import all_interpreters
from running import StartTarget

from weft.target.code import CodeBook
from weft.target.process import Process

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
