"""Names as they lie in memory."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interpreters import Interpreter
from running import StartTarget

from weft.cpython.layout import Layout, Version
from weft.cpython.locate import find_runtime
from weft.cpython.objects import ObjectError, decode_bytes, decode_str, read_bytes, read_name
from weft.cpython.tables import layouts_from_tables
from weft.errors import MemoryReadError
from weft.target.memory import read_u64
from weft.target.process import Process

LAYOUT = layouts_from_tables(Version(3, 12, 1))[0].layout


@given(st.text())
def test_every_text_in_its_kind(text: str) -> None:
    """CPython stores a str in the narrowest of 1, 2 and 4 bytes a character; lone surrogates are escaped."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    widest = max(map(ord, text), default=0)
    kind = 1 if widest < 0x100 else 2 if widest < 0x10000 else 4
    form = {1: "B", 2: "H", 4: "I"}[kind]
    assert decode_str(kind, struct.pack(f"<{len(text)}{form}", *map(ord, text))) == shown


def test_two_surrogates_are_not_one_character() -> None:
    """In a str of 2 bytes a character they are two; UTF-16 would take them for one."""
    assert decode_str(2, b"\x3d\xd8\x00\xde") == "\\ud83d\\ude00"
    assert decode_str(4, b"\xff\xff\xff\xff") == "\ufffd"


def test_names_of_2_7_are_bytes() -> None:
    assert decode_bytes("é".encode()) == "é"
    assert decode_bytes(b"\xe9") == "é"


class Bytes:
    """Memory that is one block at address 0x1000."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, address: int, size: int) -> bytes:
        data = self.data[address - 0x1000 : address - 0x1000 + size] if address >= 0x1000 else b""
        if len(data) != size:
            raise MemoryReadError(address, size)
        return data


@given(obj=st.binary(min_size=64, max_size=64))
def test_damaged_objects(obj: bytes) -> None:
    """A str and a bytes object with any contents, of the right type: an error, or what fits in the memory there is."""
    name = b"str\0" if obj[0] & 1 else b"bytes\0"
    data = bytearray(bytes(64) + name.ljust(64, b"\0") + obj)
    data[LAYOUT.type_name : LAYOUT.type_name + 8] = (0x1000 + 64).to_bytes(8, "little")
    data[128 + LAYOUT.object_type : 136 + LAYOUT.object_type] = (0x1000).to_bytes(8, "little")
    for read in read_name, read_bytes:
        try:
            assert len(read(Bytes(bytes(data)), LAYOUT, 0x1000 + 128)) <= 64 * 6
        except (ObjectError, MemoryReadError):
            continue


def frame_names(process: Process, layout: Layout, state: int) -> list[str]:
    """The names of the code objects on a thread, innermost first."""
    frame = read_u64(process.memory, state + layout.thread_frame)
    if layout.cframe_frame is not None:
        frame = read_u64(process.memory, frame + layout.cframe_frame)
    names = []
    while frame:
        owner = process.memory.read(frame + (layout.frame_owner or 0), 1)[0] if layout.frame_owner else 0
        if layout.frame_owner_shim is None or owner < layout.frame_owner_shim:
            code = read_u64(process.memory, frame + layout.frame_code) & ~layout.frame_code_tags
            names.append(read_name(process.memory, layout, read_u64(process.memory, code + layout.code_name)))
        frame = read_u64(process.memory, frame + layout.frame_previous)
    return names


def test_names_of_a_live_target(interpreter: Interpreter, start_target: StartTarget) -> None:
    """The stack that the target's source tells, with a name that is not ASCII (so not in the form that most are in)."""
    process = Process(start_target(interpreter, "blocked.py").pid)
    runtime = find_runtime(process)
    layout = runtime.layout
    if interpreter.version < (3,):
        pytest.skip("names of 2.7 are ASCII")
    expected = ["\u0113\u4e2d", "method", "inner", "outer"]
    stacks = []
    state = read_u64(
        process.memory, read_u64(process.memory, runtime.addresses.interpreters_head) + layout.interp_threads_head
    )
    while state:
        stacks.append(frame_names(process, layout, state))
        state = read_u64(process.memory, state + layout.thread_next)
    main = next(stack for stack in stacks if stack[-1] == "<module>")
    assert main[-6:] == [*expected, "main", "<module>"]
    assert [stack[1:5] for stack in stacks if stack is not main] == [expected] * 3
