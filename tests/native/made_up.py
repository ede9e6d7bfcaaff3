"""A Python program that never was: interpreters, threads and frames as bytes, with a layout of our own.

It has what the walker needs and nothing else, so that a test can make a chain of a million frames, or tear one, and say
in a line what it did. Names are bytes, as in Python 2.
"""

from __future__ import annotations

import struct
from array import array
from zlib import crc32

from weft import _native

HEAD, INTERPRETER, THREAD, TYPE, CODE, NAME = 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000
FRAMES = 0x10_0000_0000  # where tests put their frames

_COMMON = {
    "version": 0x030900F0, "pointer_size": 8, "free_threaded": 0, "names_are_bytes": 1,
    "interp_next": 0, "interp_threads_head": 8,
    "thread_size": 64, "thread_next": 0, "thread_interp": 8, "thread_frame": 16, "thread_pthread": 24,
    "frame_size": 24, "frame_previous": 0, "frame_code": 8, "frame_code_tags": 0, "frame_instruction": 16,
    "object_type": 0, "code_name": 8, "code_filename": 16, "code_linetable": 24, "code_firstlineno": 32,
    "bytes_length": 8, "bytes_data": 24,
}  # fmt: skip

# Frames anywhere, as up to 3.10.
LINKED = {**_COMMON, "instruction_kind": 0}
# Frames on a data stack of chunks, as from 3.12 on: the outermost one is a shim (owner 3).
CHUNKED = {
    **_COMMON, "instruction_kind": 2, "frame_size": 32, "frame_owner": 24, "frame_owner_shim": 3,
    "thread_chunk": 32, "thread_chunk_top": 40, "chunk_previous": 0, "chunk_size": 8, "chunk_top": 16, "chunk_data": 24,
    "code_adaptive": 40,
}  # fmt: skip

# The same with cframes, which lie on the C stack: as in 3.12; and as in 3.11, where `is_entry` tells activations.
_CFRAMES = {"thread_cframe": 16, "cframe_frame": 0, "cframe_previous": 8}
CFRAMED = {**CHUNKED, **_CFRAMES}
ENTERED = {**CHUNKED, **_CFRAMES, "frame_is_entry": 25}
del ENTERED["frame_owner_shim"]

FRAME_SIZE = 32  # of chunked frames, in bytes


def text(value: bytes) -> bytes:
    """A bytes object, with a hash."""
    return struct.pack("<QQQ", TYPE, len(value), crc32(value)) + value


def code(name: int = NAME, line_table: int = NAME) -> bytes:
    """A code object."""
    return struct.pack("<QQQQii", TYPE, name, NAME, line_table, 1, 0)


def thread(frame: int, chunk: int = 0, top: int = 0, following: int = 0) -> bytes:
    """A thread state."""
    return struct.pack("<QQQQQQ", following, INTERPRETER, frame, 7, chunk, top)


def program(frame: int, chunk: int = 0, top: int = 0) -> _native.ImageMemory:
    """One interpreter with one thread, at `frame`. A segment added later is read where this has none."""
    image = _native.ImageMemory()
    image.add_bytes(HEAD, struct.pack("<Q", INTERPRETER))
    image.add_bytes(INTERPRETER, struct.pack("<QQ", 0, THREAD))
    image.add_bytes(THREAD, thread(frame, chunk, top))
    image.add_bytes(CODE, code())
    image.add_bytes(NAME, text(b"f"))
    return image


def linked(count: int, last: int = 0, at: int = FRAMES) -> bytes:
    """A chain of frames at `at`, innermost first; the outermost one's previous is `last`."""
    words = array("Q", [0, CODE, 4]) * count
    words[0::3] = array("Q", range(at + 24, at + 24 * count + 1, 24))
    words[-3] = last
    return words.tobytes()


def chunked(count: int, last: int = 0, at: int = FRAMES) -> bytes:
    """A data stack with `count` frames from address `at` on, innermost last; the outermost one's previous is `last`."""
    words = array("Q", [0, CODE, CODE + 44, 0]) * count
    words[4::4] = array("Q", range(at, at + FRAME_SIZE * (count - 1), FRAME_SIZE))
    words[0] = last
    return words.tobytes()


def chunk(previous: int, used: int) -> bytes:
    """The head of a chunk, `used` bytes of which hold frames."""
    return struct.pack("<QQQ", previous, 0, used // 8)


class Walk:
    """The one thread's stack."""

    def __init__(self, image: _native.ImageMemory, layout: dict[str, int]) -> None:
        reader = _native.PythonReader(image, layout, _native.RuntimeAddresses(HEAD))
        self.states, self.listed = reader.threads()
        address, interpreter, _, pthread, _ = self.states[0]
        self.frames, self.loss, self.anchor = reader.stack(address, interpreter, pthread)
        self.codes = reader.codes()
