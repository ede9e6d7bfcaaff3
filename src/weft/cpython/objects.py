"""Reading the few Python objects that a stack needs: names, file names and line tables."""

from __future__ import annotations

import struct

from weft.cpython.layout import Layout
from weft.errors import WeftError
from weft.target.memory import Memory, read_cstring, read_u32, read_u64

MAX_NAME = 4096  # characters; a longer name is cut
MAX_TABLE = 1 << 22  # bytes; the line table of a function of hundreds of thousands of lines

_UNITS = {1: "B", 2: "H", 4: "I"}


class ObjectError(WeftError):
    """The bytes are not the object that they were taken for."""


def decode_str(kind: int, data: bytes) -> str:
    """Decode the characters of a str, `kind` (1, 2 or 4) bytes each.

    A lone surrogate becomes its escape (backslash, "udXXX"), a number that is no character U+FFFD.
    """
    units = struct.unpack(f"<{len(data) // kind}{_UNITS[kind]}", data[: len(data) // kind * kind])
    text = "".join([chr(unit) if unit < 0x110000 else "\ufffd" for unit in units])
    return text.encode("utf-8", "backslashreplace").decode()


def decode_bytes(data: bytes) -> str:
    """Decode a str of 2.7, which is bytes: UTF-8 where it is that, else Latin-1."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def type_name(memory: Memory, layout: Layout, obj: int) -> str:
    """Return the name of an object's type, tp_name."""
    name = read_cstring(memory, read_u64(memory, read_u64(memory, obj + layout.object_type) + layout.type_name), 64)
    return name.decode("utf-8", "replace")


def read_name(memory: Memory, layout: Layout, obj: int) -> str:
    """Return the text of a str object that holds a name. ObjectError, MemoryReadError."""
    if (found := type_name(memory, layout, obj)) != "str":
        raise ObjectError(f"a name has the type {found!r}, not str")
    if layout.names_are_bytes:
        return decode_bytes(_read_sized(memory, layout, obj, MAX_NAME))
    assert layout.str_length is not None
    assert layout.str_state is not None
    assert layout.str_kind_shift is not None
    length = read_u64(memory, obj + layout.str_length)
    state = read_u32(memory, obj + layout.str_state) >> layout.str_kind_shift
    kind, compact, ascii_only = state & 7, state >> 3 & 1, state >> 4 & 1
    if kind not in _UNITS or length >= 1 << 32:
        raise ObjectError(f"a str of kind {kind} and length {length:#x}")
    if not compact:
        assert layout.str_data_pointer is not None
        data = read_u64(memory, obj + layout.str_data_pointer)
    else:
        start = layout.str_ascii_data if ascii_only else layout.str_compact_data
        assert start is not None
        data = obj + start
    return decode_str(kind, memory.read(data, min(length, MAX_NAME) * kind))


def read_bytes(memory: Memory, layout: Layout, obj: int) -> bytes:
    """Return the contents of a bytes object (2.7: a str) that holds a table. ObjectError, MemoryReadError."""
    wanted = "str" if layout.names_are_bytes else "bytes"
    if (found := type_name(memory, layout, obj)) != wanted:
        raise ObjectError(f"a table has the type {found!r}, not {wanted}")
    return _read_sized(memory, layout, obj, MAX_TABLE)


def _read_sized(memory: Memory, layout: Layout, obj: int, limit: int) -> bytes:
    length = read_u64(memory, obj + layout.bytes_length)
    if length > limit:
        raise ObjectError(f"{length:#x} bytes where at most {limit} can be")
    return memory.read(obj + layout.bytes_data, length)
