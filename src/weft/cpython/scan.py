"""Finding the runtime by what its memory looks like, where no symbol and no section tells."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator

from weft.cpython.debug_offsets import COOKIE, debug_offsets_version
from weft.cpython.layout import Layout, Version
from weft.errors import MemoryReadError
from weft.target.image import Image
from weft.target.maps import Mapping
from weft.target.memory import Memory, read_u64

_MAX_DATA = 16 << 20  # bytes of a writable segment that are searched; CPython's own have under 1 MB

# Py_GetVersion() keeps "%.80s (%.80s) %.80s" in a static buffer: version, build, compiler; free-threaded builds say so
# behind the version (Python/getversion.c).
_VERSION_TEXT = re.compile(
    rb"([23])\.(\d{1,2})\.(\d{1,2})(?:(a|b|rc)(\d{1,2}))?\+?(?: [a-z-]+){0,3} \([^()\0]{1,80}\) \n?\[\w"
)
_MAX_INTERPRETERS = 256
_MAX_HEADS = 16
_LEVELS = {b"a": 0xA, b"b": 0xB, b"rc": 0xC, None: 0xF}


def find_version(image: Image) -> Version | None:
    """Return the version that the text of Py_GetVersion() in a module's memory tells; None until it is there."""
    for _, data in _writable(image):
        match = _VERSION_TEXT.search(data)
        if match:
            major, minor, micro, level, serial = match.groups()
            return Version(int(major), int(minor), int(micro), _LEVELS[level], int(serial or 0))
    return None


def find_runtimes(image: Image) -> Iterator[int]:
    """Yield the addresses in a module where a table of debug offsets begins, and with it `_PyRuntime` (3.13 on)."""
    for start, data in _writable(image):
        at = data.find(COOKIE)
        while at >= 0:
            if (start + at) % 8 == 0:
                version = debug_offsets_version(image.memory, start + at)
                if version and version.major == 3:
                    yield start + at
            at = data.find(COOKIE, at + 1)


def find_heads(image: Image, layout: Layout, mappings: list[Mapping]) -> list[int]:
    """Return the addresses that may be that of the pointer to the newest interpreter, the likeliest first; at most 16.

    A pointer to an interpreter is one whose chain closes: interpreter -> first thread state -> the same interpreter.
    Several variables point to the main one. From 3.7 on the head lies before that of them (struct pyinterpreters: head,
    main) which the list from the head ends with; before, it is the one from which most interpreters can be reached.
    """
    in_code = _head_in_code(image)
    if in_code:
        return [in_code]
    memory = image.memory
    heaps = sorted((m.start, m.end) for m in mappings if m.writable)
    found = [
        (address, pointer)
        for start, data in _writable(image)
        for address, pointer in _pointers(start, data, heaps)
        if _closes(memory, layout, pointer)
    ]
    if layout.interp_id is None:
        found.sort(key=lambda pair: -len(_interpreters(memory, layout, pair[1])))
        heads = [address for address, _ in found]
    else:
        before = [(address - 8, main, read_u64(memory, address - 8)) for address, main in found]
        heads = [address for address, main, first in before if _interpreters(memory, layout, first)[-1:] == [main]]
    return heads[:_MAX_HEADS]


def _writable(image: Image) -> Iterator[tuple[int, bytes]]:
    """Yield the writable segments of a module: start and bytes."""
    for start, end in image.writable_ranges():
        try:
            yield start, image.memory.read(start, min(end - start, _MAX_DATA))
        except MemoryReadError:
            continue


def _pointers(start: int, data: bytes, heaps: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the address and value of each aligned word that points into writable memory."""
    skip = -start % 8
    starts = [heap[0] for heap in heaps]
    words = struct.unpack_from(f"<{(len(data) - skip) // 8}Q", data, skip)
    for index, word in enumerate(words):
        if word and word % 8 == 0:
            heap = bisect_right(starts, word) - 1
            if heap >= 0 and word < heaps[heap][1]:
                yield start + skip + 8 * index, word


def _closes(memory: Memory, layout: Layout, interpreter: int) -> bool:
    try:
        thread = read_u64(memory, interpreter + layout.interp_threads_head)
        # An empty list of CPython's garbage collector points to itself, and would close too.
        return thread not in (0, interpreter) and read_u64(memory, thread + layout.thread_interp) == interpreter
    except MemoryReadError:
        return False


def _interpreters(memory: Memory, layout: Layout, interpreter: int) -> list[int]:
    """Return the interpreters that can be reached from one; none if the list runs into something else."""
    found: list[int] = []
    while interpreter and interpreter not in found and len(found) < _MAX_INTERPRETERS:
        found.append(interpreter)
        try:
            interpreter = read_u64(memory, interpreter + layout.interp_next)
        except MemoryReadError:
            return []
    return found


def _head_in_code(image: Image) -> int | None:
    """Return what PyInterpreterState_Head() of 2.7 and 3.6 returns, where its code can be read; else None.

    x86-64: `mov interp_head(%rip), %rax; ret`, perhaps behind `endbr64`.
    """
    function = image.symbols(("PyInterpreterState_Head",)).get("PyInterpreterState_Head")
    if not function:
        return None
    code = image.memory.read(function, 16)
    at = 4 if code.startswith(b"\xf3\x0f\x1e\xfa") else 0
    if code[at : at + 3] != b"\x48\x8b\x05" or code[at + 7] != 0xC3:
        return None
    offset: int = struct.unpack_from("<i", code, at + 3)[0]
    return function + at + 7 + offset
