"""bpf(2) and perf_event_open(2), as far as weft uses them: maps, programs, and the clocks and probes they run at."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import re
import struct
from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from functools import cached_property
from pathlib import Path

from weft.errors import CollectorError

# arch/x86/entry/syscalls/syscall_64.tbl
_BPF, _PERF_EVENT_OPEN, _MEMBARRIER = 321, 298, 324
_MEMBARRIER_GLOBAL = 1
# include/uapi/linux/bpf.h: enum bpf_cmd, and flags
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE, _PROG_LOAD, _RAW_TRACEPOINT_OPEN, _BTF_LOAD = 0, 1, 2, 3, 5, 17, 18
_LINK_CREATE, _ATTACH_PERF_EVENT, _ATTACH_PROBES = 28, 41, 48
MMAPABLE = 1 << 10
# include/uapi/linux/perf_event.h
_TYPE_SOFTWARE, _CPU_CLOCK = 1, 0
_ATTR_SIZE = 128
_DISABLED = 1 << 0
_CLOSE_ON_EXEC = 8
_IOC_ENABLE, _IOC_SET_BPF = 0x2400, 0x40042408
_KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")
_PROBES = Path("/sys/bus/event_source/devices/uprobe/type")
# Older ones have them, too, but told of one thread only until 6.10 (commit 46ba0e49b642), and later took processes that
# share memory, as by vfork, for one ("bpf: Fix uprobe multi pid filter check", September 2024).
_FIRST_WITH_LINKED_PROBES = 6, 12

_MAX_ATTR = 160  # bytes of union bpf_attr; what a kernel does not know must be 0
_LOG = 1 << 20
_PART = 1 << 20  # bytes of a map that are written at a time

_libc = ctypes.CDLL(None, use_errno=True)


class MapKind(IntEnum):
    """Of enum bpf_map_type."""

    HASH = 1
    ARRAY = 2
    PER_CPU_ARRAY = 6
    LRU_HASH = 9
    ARRAY_OF_MAPS = 12
    RING = 27


class ProgramKind(Enum):
    """Of enum bpf_prog_type, and of enum bpf_attach_type, where the kernel wants to know that, too."""

    PROBE = 2, 0  # BPF_PROG_TYPE_KPROBE, for uprobes, too
    LINKED_PROBES = 2, _ATTACH_PROBES
    PERF_EVENT = 7, 0
    RAW_TRACEPOINT = 17, 0


def _call(number: int, *arguments: object) -> int:
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _bpf(command: int, attributes: bytes) -> int:
    return _call(_BPF, command, ctypes.create_string_buffer(attributes, _MAX_ATTR), _MAX_ATTR)


class File:
    """A file descriptor that ends with its object. What the kernel keeps for it ends then, too: nothing is pinned."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Close it; once is enough."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()


class Map(File):
    """A map, shared by the programs and this process. Keys and values are bytes of fixed sizes. OSError.

    Values of one that is an ARRAY_OF_MAPS are written as descriptors; all these maps are like `like`.
    """

    def __init__(
        self, kind: MapKind, key: int, value: int, entries: int, flags: int = 0, like: Map | None = None
    ) -> None:
        super().__init__(-1)
        told = kind, key, value, entries, flags, like.descriptor if like else 0
        self.descriptor = _bpf(_MAP_CREATE, struct.pack("<6I", *told))
        self._key = ctypes.create_string_buffer(max(1, key))
        copies = possible_cpus() if kind is MapKind.PER_CPU_ARRAY else 1
        self._value_size = max(1, (value + 7) // 8 * 8 * copies)
        self._flags = flags
        self.entries = entries
        self.bytes = value * entries if kind is not MapKind.RING else entries

    @cached_property
    def _value(self) -> ctypes.Array[ctypes.c_char]:
        """Where values go in and out: 16 MB of an array that write() fills, and that is not read."""
        return ctypes.create_string_buffer(self._value_size)

    def _entry(self, key: bytes) -> bytes:
        self._key.raw = key
        return struct.pack("<QQQQ", self.descriptor, ctypes.addressof(self._key), ctypes.addressof(self._value), 0)

    def __getitem__(self, key: bytes) -> bytes:
        """Return the value (of a per-CPU map: of all CPUs, one behind the other). KeyError."""
        try:
            _bpf(_MAP_LOOKUP, self._entry(key))
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise KeyError(key) from None
            raise
        return self._value.raw

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._value.raw = value.ljust(self._value_size, b"\0")
        _bpf(_MAP_UPDATE, self._entry(key))

    def __delitem__(self, key: bytes) -> None:
        _bpf(_MAP_DELETE, self._entry(key)[:16])  # it takes no value

    def write(self, at: int, data: bytes) -> None:
        """Overwrite some bytes of an array that is MMAPABLE, a part at a time: what is mapped of it is resident."""
        for done in range(0, len(data), _PART):
            part = data[done : done + _PART]
            page, inside = divmod(at + done, mmap.PAGESIZE)
            size = -(-(inside + len(part)) // mmap.PAGESIZE) * mmap.PAGESIZE
            with mmap.mmap(self.descriptor, size, offset=page * mmap.PAGESIZE) as memory:
                memory[inside : inside + len(part)] = part


def wait_for_programs() -> bool:
    """Return when every program that is running now, on whatever CPU, has ended. False: the kernel does not say when.

    Programs run as readers of RCU, for which membarrier(2) waits, but not where CPUs run without ticks (nohz_full)
    (kernel/sched/membarrier.c, MEMBARRIER_CMD_GLOBAL).
    """
    try:
        _call(_MEMBARRIER, _MEMBARRIER_GLOBAL, 0, 0)
    except OSError:
        return False
    return True


def kernel_release() -> tuple[int, ...]:
    """Return the first two numbers of the name of the running kernel's release."""
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))


def possible_cpus() -> int:
    """Return how many CPUs there may ever be."""
    told = Path("/sys/devices/system/cpu/possible").read_text()
    return int(told.strip().rpartition("-")[2]) + 1


def load_btf(btf: bytes) -> File:
    """Give the kernel the types of a program. CollectorError with the kernel's words if it takes them not."""
    data = ctypes.create_string_buffer(btf, len(btf))
    log = ctypes.create_string_buffer(_LOG)
    attributes = struct.pack("<QQIII", ctypes.addressof(data), ctypes.addressof(log), len(btf), len(log), 1)
    try:
        return File(_bpf(_BTF_LOAD, attributes))
    except OSError as error:
        raise _refused("types", error, log.value) from error


def load_program(
    kind: ProgramKind, instructions: bytes, btf: File, infos: Sequence[bytes], sizes: Sequence[int]
) -> File:
    """Load a program.

    infos: its functions, its lines and its relocations as in .BTF.ext, of records of these sizes.
    CollectorError with the last of the verifier's words if the kernel refuses it.
    """
    kept = [ctypes.create_string_buffer(part, max(1, len(part))) for part in (instructions, *infos, b"GPL\0")]
    code, functions, lines, relocations, licence = (ctypes.addressof(part) for part in kept)
    counts = [len(part) // size if size else 0 for part, size in zip(infos, sizes, strict=True)]
    program_type, attach_type = kind.value

    def attributes(log: int, log_size: int) -> bytes:
        return b"".join(
            (
                struct.pack("<IIQQ", program_type, len(instructions) // 8, code, licence),
                struct.pack("<IIQII16sII", 1 if log else 0, log_size, log, 0, 0, b"weft", 0, attach_type),
                struct.pack("<IIQI", btf.descriptor, sizes[0], functions, counts[0]),
                struct.pack("<IQI", sizes[1], lines, counts[1]),
                struct.pack("<III", 0, 0, counts[2]),  # attach_btf_id, attach_prog_fd, core_relo_cnt
                struct.pack("<QQI", 0, relocations, sizes[2]),  # fd_array, core_relos, core_relo_rec_size
            )
        )

    try:
        return File(_bpf(_PROG_LOAD, attributes(0, 0)))
    except OSError as refused:
        log = ctypes.create_string_buffer(_LOG)
        try:
            return File(_bpf(_PROG_LOAD, attributes(ctypes.addressof(log), len(log))))
        except OSError:
            if counts[2] and not _KERNEL_BTF.exists():
                raise CollectorError(
                    f"this kernel does not tell the types of its own structures ({_KERNEL_BTF},"
                    " CONFIG_DEBUG_INFO_BTF), which collector bpf needs"
                ) from refused
            raise _refused("program", refused, log.value) from refused


def _refused(what: str, error: OSError, log: bytes) -> CollectorError:
    words = [line for line in log.decode(errors="replace").splitlines() if line][-3:]
    return CollectorError("; ".join([f"the kernel refuses the BPF {what}: {error.strerror}", *words]))


def open_clocks(cpu: int, periods_ns: Sequence[int], program: File) -> list[File]:
    """Return clocks that run the program at each tick, whatever is on that CPU, once they are enabled. OSError.

    None: the CPU is offline.
    """
    try:
        return [_open_clock(cpu, period_ns, program) for period_ns in periods_ns]
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.ENODEV):
            return []
        raise


def _open_clock(cpu: int, period_ns: int, program: File) -> File:
    attributes = struct.pack("<IIQQQQQ", _TYPE_SOFTWARE, _ATTR_SIZE, _CPU_CLOCK, period_ns, 0, 0, _DISABLED)
    data = ctypes.create_string_buffer(attributes, _ATTR_SIZE)
    clock = File(_call(_PERF_EVENT_OPEN, data, -1, cpu, -1, _CLOSE_ON_EXEC))
    fcntl.ioctl(clock.descriptor, _IOC_SET_BPF, program.descriptor)
    return clock


def enable_clock(clock: File) -> None:
    """Let a clock tick."""
    fcntl.ioctl(clock.descriptor, _IOC_ENABLE, 0)


def attach(tracepoint: str, program: File) -> File:
    """Run the program at each event of one of the kernel's tracepoints. OSError."""
    name = ctypes.create_string_buffer(tracepoint.encode())
    return File(_bpf(_RAW_TRACEPOINT_OPEN, struct.pack("<QI", ctypes.addressof(name), program.descriptor)))


def probe_type() -> int:
    """Return the number of the kernel's perf events for probes of user code. CollectorError if it has none."""
    try:
        return int(_PROBES.read_text())
    except (OSError, ValueError):
        raise CollectorError(
            f"mode alloc needs the kernel's probes of user code, and it has none ({_PROBES} is not there)",
            "a kernel with CONFIG_UPROBE_EVENTS has them",
        ) from None


def open_probes(pid: int, path: str, cookies: Mapping[int, int], program: File) -> list[File]:
    """Run the program where a process is about to execute instructions of a file, until what is returned is closed.

    cookies: a number of 64 bits that the program is told, by the instruction's offset. OSError.

    It runs in that process alone, in its threads that will be made, too, and in what it becomes by exec. Not in its
    children: the kernel removes the probes from them at the first hit. To close them takes about a second, for
    which those that are being opened may have to wait.
    """
    kind = probe_type()
    name = ctypes.create_string_buffer(os.fsencode(path))
    opened = []
    for offset, cookie in cookies.items():
        attributes = struct.pack("<IIQQQQQ", kind, _ATTR_SIZE, 0, 0, 0, 0, 0)
        attributes += struct.pack("<IIQQ", 0, 0, ctypes.addressof(name), offset)  # config1 and config2
        data = ctypes.create_string_buffer(attributes, _ATTR_SIZE)
        event = File(_call(_PERF_EVENT_OPEN, data, pid, -1, -1, _CLOSE_ON_EXEC))
        link = struct.pack("<IIIIQ", program.descriptor, event.descriptor, _ATTACH_PERF_EVENT, 0, cookie)
        opened += [File(_bpf(_LINK_CREATE, link)), event]
    return opened


def are_probes_linked(*, follow_processes: bool) -> bool:
    """Return whether probes are best opened by open_linked_probes(): where children are probed, too, if it can be."""
    return follow_processes and kernel_release() >= _FIRST_WITH_LINKED_PROBES


def open_linked_probes(pid: int, path: str, cookies: Mapping[int, int], program: File) -> list[File]:
    """Do the same, but for a program of kind LINKED_PROBES. OSError.

    To close them takes some 40 ms, and they do not ask for CAP_SYS_ADMIN. But a process that
    this one forks stops at them, too, for nothing, until they are closed.
    """
    name = ctypes.create_string_buffer(os.fsencode(path))
    numbers = ctypes.c_uint64 * len(cookies)
    offsets, told = numbers(*cookies), numbers(*cookies.values())
    link = struct.pack("<IIII", program.descriptor, 0, _ATTACH_PROBES, 0)
    link += struct.pack("<QQQQ", ctypes.addressof(name), ctypes.addressof(offsets), 0, ctypes.addressof(told))
    link += struct.pack("<III", len(cookies), 0, pid)
    return [File(_bpf(_LINK_CREATE, link))]
