"""What JIT compilers, and CPython's perf support, tell of their code: /tmp/perf-PID.map and /tmp/jit-PID.dump.

Both grow while the process runs. tools/perf/Documentation/jit-interface.txt and jitdump-specification.txt of the kernel
tell their forms. The process writes them, and others may: nothing in them is trusted.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path

from weft.errors import TargetError
from weft.target.opening import open_file
from weft.target.process import Process

Function = tuple[int, int, bytes]  # address, end, name

_MAX_BYTES = 64 << 20  # of each file; what comes behind is not read
_MAX_BYTES_IN_ALL = 512 << 20  # what was read is kept to the end, of processes that have ended, too
_MAX_FUNCTIONS = 1 << 20
_MAX_NAME = 4096  # bytes
_HEADER = struct.Struct("<4sII")  # of a dump: magic, version, size of the header
_RECORD = struct.Struct("<IIQ")  # kind, size, time
_LOAD = struct.Struct("<IIQQQQ")  # pid, tid, virtual address, address of the code, its size, its number
_CODE_LOAD = 0


class Room:
    """How many bytes may still be kept of the files of all processes."""

    def __init__(self) -> None:
        self.left = _MAX_BYTES_IN_ALL


class _Growing:
    """A file that another process appends to: what of it could be read so far."""

    def __init__(self, path: str, owner: int, room: Room) -> None:
        self._path: str | None = path
        self._owner = owner
        self._room = room
        self._fd: int | None = None
        self.bytes = bytearray()

    def read(self) -> None:
        """Read what has come since the last call, if anything has."""
        if self._fd is None and self._path is not None:
            self._fd = self._open(self._path)
        if self._fd is not None:
            with suppress(OSError):
                if os.fstat(self._fd).st_size < len(self.bytes):
                    self._room.left += len(self.bytes)
                    self.bytes.clear()  # written anew
                most = min(_MAX_BYTES - len(self.bytes), self._room.left)
                more = os.pread(self._fd, most, len(self.bytes))
                self._room.left -= len(more)
                self.bytes += more

    def _open(self, path: str) -> int | None:
        with suppress(OSError):
            fd = open_file(path, follows_link=False)
            if os.fstat(fd).st_uid in (0, self._owner):
                return fd
            os.close(fd)
        return None

    def close(self) -> None:
        """Close the file; what was read stays."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = self._path = None


class JitNames:
    """The names of a live process's code that lies in no module."""

    def __init__(self, process: Process, room: Room) -> None:
        """Note where they may be told: by the process's id in its own PID namespace, under its own root.

        Under ours, that id may be another process's.
        """
        number = process.pid
        owner = 0
        with suppress(TargetError, OSError):
            number = process.namespace_ids().get(process.pid, process.pid)
            owner = Path(f"/proc/{process.pid}").stat().st_uid
        folder = process.paths("/tmp")[0]  # noqa: S108  (the interface's place)
        self._map = _Growing(f"{folder}/perf-{number}.map", owner, room)
        self._dump = _Growing(f"{folder}/jit-{number}.dump", owner, room)

    def read(self) -> None:
        """Read what has been told since the last call."""
        self._map.read()
        self._dump.read()

    def close(self) -> None:
        """Read the rest, and let go of the files."""
        self.read()
        self._map.close()
        self._dump.close()

    def functions(self) -> list[Function]:
        """Return what they tell by now, in order of address; where it overlaps, the last holds."""
        self.read()
        return without_overlaps([*functions_of_map(self._map.bytes), *functions_of_dump(self._dump.bytes)])


def functions_of_map(text: bytes | bytearray) -> Iterator[Function]:
    """Yield the functions of a perf map, lines of "ADDRESS SIZE NAME" in hexadecimal; others are left out."""
    for line in bytes(text).split(b"\n", _MAX_FUNCTIONS)[:_MAX_FUNCTIONS]:
        begin, _, rest = line[: _MAX_NAME + 64].strip().partition(b" ")
        size, _, name = rest.partition(b" ")
        with suppress(ValueError):
            yield from _function(int(begin, 16), int(size, 16), name)


def functions_of_dump(data: bytes | bytearray) -> Iterator[Function]:
    """Yield the functions that a jitdump of this machine's byte order has loaded."""
    if len(data) < _HEADER.size:
        return
    magic, _, at = _HEADER.unpack_from(data)
    if magic != b"DTiJ":
        return
    for _ in range(_MAX_FUNCTIONS):
        if at + _RECORD.size > len(data):
            return
        kind, size, _ = _RECORD.unpack_from(data, at)
        if size < _RECORD.size or at + size > len(data):
            return  # not written to its end yet, or no record
        if kind == _CODE_LOAD and size >= _RECORD.size + _LOAD.size:
            *_, begin, length, _ = _LOAD.unpack_from(data, at + _RECORD.size)
            names = at + _RECORD.size + _LOAD.size
            name, zero, _ = bytes(data[names : min(at + size, names + _MAX_NAME)]).partition(b"\0")
            if zero:
                yield from _function(begin, length, name)
        at += size


def _function(begin: int, size: int, name: bytes) -> Iterator[Function]:
    if name and 0 <= begin < begin + size <= 1 << 64:
        yield begin, begin + size, name[:_MAX_NAME]


def without_overlaps(functions: list[Function]) -> list[Function]:
    """Return disjoint ranges in order: where functions overlap, the last one holds."""
    beginning: dict[int, list[int]] = {}
    bounds = set()
    for number, (begin, end, _) in enumerate(functions):
        beginning.setdefault(begin, []).append(number)
        bounds |= {begin, end}
    found: list[Function] = []
    open_: list[int] = []  # a heap: the last one first
    for begin, end in pairwise(sorted(bounds)):
        for number in beginning.get(begin, ()):
            heappush(open_, -number)
        while open_ and functions[-open_[0]][1] <= begin:
            heappop(open_)
        if open_:
            found.append((begin, end, functions[-open_[0]][2]))
    return found
