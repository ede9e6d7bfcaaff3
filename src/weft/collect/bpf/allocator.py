"""The functions by which programs ask libc, or what stands in for it, for memory; and the probes at them."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from weft.collect.bpf.kernel import File, open_linked_probes, open_probes
from weft.collect.bpf.prologue import first_emulated
from weft.errors import TargetExitedError
from weft.target.elf import ElfError, ElfFile
from weft.target.maps import Mapping
from weft.target.process import Process

# Of libc, and of what is commonly preloaded in its place. A program itself may have one linked in.
_NAMES = re.compile(r"libc\.so|libc-\d|libjemalloc|libtcmalloc|libmimalloc")
_AT_ONCE = 16  # probes that are taken out at one time
_MAX_SPAN = 1 << 20  # bytes; glibc's allocator has 8 KB


class _Request(IntEnum):
    """enum weft_request of bpf/abi.h: where the size is among the arguments."""

    FIRST = 0
    PRODUCT = 1
    AGAIN = 2
    ALIGNED = 3
    THIRD = 4


_REQUESTS = {
    "malloc": _Request.FIRST,
    "calloc": _Request.PRODUCT,
    "realloc": _Request.AGAIN,
    "aligned_alloc": _Request.ALIGNED,
    "memalign": _Request.ALIGNED,
    "posix_memalign": _Request.THIRD,
    "valloc": _Request.FIRST,
    "pvalloc": _Request.FIRST,
}
# What else lies among them: so far the allocator's own code reaches (glibc, malloc/malloc.c).
_NEIGHBOURS = ("free", "malloc_usable_size", "malloc_trim", "mallinfo", "malloc_stats", "mallopt", "malloc_info")
# As bpf/abi.h has them.
_FORWARDS, _BEFORE_AT, _AFTER_AT = 8, 4, 34

# jmp and jcc with a distance of 32 bits; instructions may begin anywhere.
_JUMP = re.compile(rb"(?=(?:\xe9|\x0f[\x80-\x8f])(.{4}))", re.DOTALL)
_SHORT_JUMP = re.compile(rb"(?=[\x70-\x7f\xeb](.))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a probe belongs, in its file, and what its program is told."""

    name: str
    offset: int
    cookie: int


def entries_of(file: ElfFile) -> list[Entry]:
    """Return where the file is asked for memory; none, if it has no allocator with symbols. ElfError."""
    ranges = {name: found[0] for name, found in file.ranges_of((*_REQUESTS, *_NEIGHBOURS)).items()}
    if "malloc" not in ranges:
        return []
    begin, end = min(begin for begin, _ in ranges.values()), max(end for _, end in ranges.values())
    section = next((s for s in file.sections if s.is_code and s.address <= begin and end <= s.address + s.size), None)
    if section is None or end - begin > _MAX_SPAN:
        raise ElfError("its allocator does not lie in one piece")
    code = file.read(begin - section.address + section.offset, end - begin)
    # By a jump, and not a call, what is asked for comes to malloc as though its caller had called that.
    jumps = list(_jumps_to(ranges["malloc"][0], code, begin))
    first, last = ranges.get("realloc", (0, 0))
    from_realloc = any(first <= jump < last for jump in jumps)
    from_aligned = any(not first <= jump < last for jump in jumps)
    found: dict[int, Entry] = {}
    for name, request in _REQUESTS.items():
        if name not in ranges:
            continue
        own_begin, own_end = ranges[name]
        own = code[own_begin - begin : own_end - begin]
        skipped = first_emulated(own, third=request is _Request.THIRD)
        address = own_begin + (0 if _jumps_within(own, skipped) else skipped)
        forwards = from_realloc if request is _Request.AGAIN else from_aligned
        forwarding = _FORWARDS if forwards and request >= _Request.AGAIN else 0
        cookie = request | forwarding | address - begin << _BEFORE_AT | end - address << _AFTER_AT
        found.setdefault(address, Entry(name, address - section.address + section.offset, cookie))
    return list(found.values())


def _jumps_to(target: int, code: bytes, begin: int) -> Iterator[int]:
    """Yield where code that lies at `begin` jumps to a function."""
    for match in _JUMP.finditer(code):
        (distance,) = struct.unpack("<i", match[1])
        if begin + match.end(1) + distance == target:
            yield begin + match.start()


def _jumps_within(code: bytes, offset: int) -> bool:
    """Whether a function may come back to an offset of it."""
    short = any(
        at + 2 + distance == offset
        for at, distance in ((match.start(), struct.unpack("<b", match[1])[0]) for match in _SHORT_JUMP.finditer(code))
    )
    return short or any(True for _ in _jumps_to(offset, code, 0))


class AllocatorProbes:
    """The probes in the processes of a recording."""

    def __init__(self, program: File, *, linked: bool = False) -> None:
        """linked: the program is of kind LINKED_PROBES."""
        self._program = program
        self._open = open_linked_probes if linked else open_probes
        self._entries: dict[tuple[int, ...], list[Entry]] = {}  # by what tells a file, and what is in it, from others
        self._probed: dict[int, dict[tuple[str, int], list[File]]] = {}  # by pid, and by device and inode
        # To take probes out, the kernel waits until no program runs that may be at one; once for many.
        self._remover = ThreadPoolExecutor(_AT_ONCE, "weft-probes")
        self.problems: dict[int, str] = {}  # pid -> why its allocations are not seen

    def add(self, pid: int) -> bool:
        """Have the program run in a process, where it asks for memory. Returns whether there are new probes.

        Whatever is in the way is noted in `problems`. TargetExitedError if it has ended.
        """
        process = Process(pid)
        executable = process.executable
        candidates = [
            mapping
            for mapping in process.maps()
            if mapping.is_file
            and "x" in mapping.perms
            and (_NAMES.match(Path(mapping.path).name) or mapping.path == executable)
        ]
        probed = self._probed.setdefault(pid, {})
        is_new = False
        problem = "it has no libc, or one without symbols"
        for mapping in candidates:
            key = mapping.dev, mapping.inode
            if key in probed:
                continue
            try:
                probed[key] = self._probes_at(pid, mapping)
                is_new |= bool(probed[key])
            except (OSError, ElfError) as error:
                problem = f"{mapping.path}: {error}"
        if any(probed.values()):
            self.problems.pop(pid, None)
        elif process.is_alive:
            self.problems[pid] = problem
        else:
            raise TargetExitedError(f"process {pid} has ended")
        return is_new

    def remove(self, pid: int) -> bool:
        """Remove all probes from a process, soon. Returns whether there were any."""
        probes = [probe for each in self._probed.pop(pid, {}).values() for probe in each]
        for probe in probes:
            self._remover.submit(probe.close)
        return bool(probes)

    def close(self) -> None:
        """Remove all probes from all processes."""
        for pid in list(self._probed):
            self.remove(pid)
        self._remover.shutdown()

    def _probes_at(self, pid: int, mapping: Mapping) -> list[File]:
        """Probe what a process has mapped. OSError, ElfError."""
        with _open(pid, mapping) as file:
            # A linker may write another program into the same inode, and a probe within an instruction would change
            # what the target does.
            status = os.fstat(file.fileno())
            key = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            if key not in self._entries:
                self._entries[key] = entries_of(file)
            cookies = {entry.offset: entry.cookie for entry in self._entries[key]}
            return self._open(pid, file.own_path, cookies, self._program) if cookies else []


def _open(pid: int, mapping: Mapping) -> ElfFile:
    """Open the very file that is mapped, whatever its name is by now: its pages are what the kernel puts probes into.

    OSError, ElfError.
    """
    link = f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"
    with suppress(OSError):
        return ElfFile(link)
    file = ElfFile(f"/proc/{pid}/root{mapping.path}")
    if os.fstat(file.fileno()).st_ino != mapping.inode:
        file.close()
        raise ElfError("it has been replaced; the kernel tells the old one to root only")
    return file
