"""Reading the memory of a target."""

from __future__ import annotations

import os
import struct
from typing import Protocol

from weft.errors import MemoryReadError

_U64 = struct.Struct("<Q")
_U32 = struct.Struct("<I")


class Memory(Protocol):
    """Anything with addresses and bytes: a live process, a core file, a snapshot."""

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes at `address`, or raise MemoryReadError."""
        ...


class ProcessMemory:
    """The memory of a live process, through /proc/PID/mem (proc(5)). Nothing in the process is stopped.

    OSError from the constructor says why the kernel refuses; `weft.target.process.Process.memory` gives it words.
    """

    def __init__(self, pid: int) -> None:
        self._fd = -1
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        # A recording looks at its processes again and again, through objects that it drops.
        self.close()

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes at `address`, or raise MemoryReadError."""
        if not 0 <= address < 1 << 63 or size < 0:
            raise MemoryReadError(address, size, "no such address")
        try:
            data = os.pread(self._fd, size, address)
        except OSError as error:
            raise MemoryReadError(address, size, os.strerror(error.errno or 0)) from None
        if len(data) != size:
            # A read ends early where the mapping ends, and is empty once the process is gone.
            raise MemoryReadError(address, size, f"only {len(data)} bytes are mapped")
        return data

    def close(self) -> None:
        """Close the file; reading fails from then on."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> ProcessMemory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read_u64(memory: Memory, address: int) -> int:
    """Return the unsigned 64-bit number, or pointer, at `address`."""
    value: int = _U64.unpack(memory.read(address, 8))[0]
    return value


def read_u32(memory: Memory, address: int) -> int:
    """Return the unsigned 32-bit number at `address`."""
    value: int = _U32.unpack(memory.read(address, 4))[0]
    return value


def read_cstring(memory: Memory, address: int, limit: int = 256) -> bytes:
    """Return the bytes at `address` up to a NUL, at most `limit`. Reads no further than the page that holds the NUL."""
    out = b""
    while len(out) < limit:
        step = min(limit - len(out), 4096 - (address + len(out)) % 4096)
        head, nul, _ = memory.read(address + len(out), step).partition(b"\0")
        out += head
        if nul:
            break
    return out
