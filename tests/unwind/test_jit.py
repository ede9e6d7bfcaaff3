"""Code that a JIT compiler has told a debugger of: LLVM's, as gdb sees it; and what is no such thing."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from interpreters import CACHE, all_interpreters
from running import StartTarget
from test_stacks import gdb_stack, own_stack
from weft_command import run_weft

from weft.errors import MemoryReadError
from weft.target.jit import JitCode
from weft.target.maps import Mapping

LLVM = CACHE / "llvmlite-3.13"
INTERPRETERS = [each for each in all_interpreters() if each.minor == (3, 13) and each.chroot is None]


def test_llvm(start_target: StartTarget, lack: Callable[[str], NoReturn], tmp_path: Path) -> None:
    """GIVEN code of LLVM's that calls Python THEN its frames are gdb's, by its own unwind information, with names."""
    if not (LLVM.exists() and INTERPRETERS):
        lack("no llvmlite, or no Python 3.13 that it is for")
    target = start_target(INTERPRETERS[0], "jitted.py", env={"PYTHONPATH": str(LLVM)})
    (thread,) = json.loads(run_weft("dump", "--json", target.pid).stdout)["threads"]
    jitted = [frame for frame in thread["frames"] if frame.get("module") == "[jit]"]
    assert [(frame["function"], frame["by_frame_pointer"]) for frame in jitted] == [("inner", False), ("outer", False)]
    assert [frame["seam"] for frame in thread["frames"] if frame.get("seam")] == ["proven", "proven"]
    frames, loss = own_stack(target.pid)
    assert loss is None
    assert [frame[0] for frame in frames] == gdb_stack(target.pid, tmp_path, None)


class Words:
    """Memory that is made of pieces."""

    def __init__(self, pieces: dict[int, bytes]) -> None:
        self.pieces = pieces
        self.reads = 0

    def read(self, address: int, size: int) -> bytes:
        """A part of one piece."""
        self.reads += 1
        for begin, data in self.pieces.items():
            if begin <= address and address + size <= begin + len(data):
                return data[address - begin : address - begin + size]
        raise MemoryReadError(address, size)


def descriptor(first: int, version: int = 1) -> bytes:
    return struct.pack("<IIQQ", version, 0, 0, first)


def entry(following: int, address: int, size: int) -> bytes:
    return struct.pack("<QQQQ", following, 0, address, size)


MAPPING = Mapping(0x1000, 0x2000, "r-xp", 0, "00:00", 0, "")
HOSTILE = {
    "circle": {0x10: descriptor(0x100), 0x100: entry(0x200, 0, 8), 0x200: entry(0x100, 0x1000, 8)},
    "itself": {0x10: descriptor(0x100), 0x100: entry(0x100, 0x1000, 1)},
    "nowhere": {0x10: descriptor(0x6666)},
    "version": {0x10: descriptor(0x100, 2), 0x100: entry(0, 0x1000, 8)},
    "huge": {0x10: descriptor(0x100), 0x100: entry(0, 0x1000, 1 << 63)},
    "empty": {0x10: descriptor(0x100), 0x100: entry(0, 0x1000, 0)},
    "no object": {0x10: descriptor(0x100), 0x100: entry(0, 0x1000, 64), 0x1000: b"\x7fELF\2\1" + b"\xff" * 58},
    "long": {0x10: descriptor(0x100000), 0x100000: b"".join(entry(0x100020 + 32 * i, 0, 1) for i in range(50_000))},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lists(name: str) -> None:
    """GIVEN a list of objects that has no end, or leads nowhere THEN a look ends, and finds nothing."""
    code, memory = JitCode(None), Words(HOSTILE[name])
    code.look(memory, [0x10, 0x10, 0x7777])
    assert code.functions() == []
    assert len(code.table_of(MAPPING)) == 0
    assert memory.reads < 20_000


def test_damaged_objects() -> None:
    """GIVEN the file of a program, cut and changed anywhere THEN what it says is bounded, and nothing breaks."""
    whole = bytearray(
        Path(INTERPRETERS[0].executable if INTERPRETERS else "/bin/true").resolve().read_bytes()[: 1 << 20]
    )
    for change in range(64):
        data = bytes(whole[:change]) + b"\xff" + bytes(whole[change + 1 :])
        code = JitCode(None)
        code.look(Words({0x10: descriptor(0x100), 0x100: entry(0, 0x10000, len(data)), 0x10000: data}), [0x10])
        code.functions()
        code.table_of(MAPPING)
