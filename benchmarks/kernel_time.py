"""What BPF programs take, as the kernel counts it: no process's CPU time has it."""

from __future__ import annotations

import ctypes
import re
import struct
from dataclasses import dataclass
from pathlib import Path

_BPF, _ENABLE_STATS = 321, 32  # bpf(2), BPF_ENABLE_STATS
TICKS = 7  # BPF_PROG_TYPE_PERF_EVENT


@dataclass
class KernelTime:
    """Of all BPF programs that a process holds: seconds, runs; and bytes, of its maps."""

    seconds: float = 0.0
    runs: int = 0
    maps: int = 0


def count_in_kernel() -> None:
    """Let the kernel count what BPF programs take, as long as this process lives. OSError."""
    attributes = ctypes.create_string_buffer(struct.pack("<I", 0))  # BPF_STATS_RUN_TIME
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_BPF, _ENABLE_STATS, attributes, 4) < 0:
        raise OSError(ctypes.get_errno(), "bpf(BPF_ENABLE_STATS)")


def kernel_time(pid: int, kind: int | None = None) -> KernelTime:
    """What the programs of a process have taken so far; `kind`: of those of one type only. None once it has ended."""
    total = KernelTime()
    try:
        files = list(Path(f"/proc/{pid}/fdinfo").iterdir())
    except OSError:
        return total
    for info in files:
        try:
            text = info.read_text()
        except OSError:
            continue  # it has been closed
        told = dict(re.findall(r"^(prog_type|run_time_ns|run_cnt|memlock):\s*(\d+)", text, re.MULTILINE))
        if kind is None or int(told.get("prog_type", -1)) == kind:
            total.seconds += int(told.get("run_time_ns", 0)) / 1e9
            total.runs += int(told.get("run_cnt", 0))
            total.maps += int(told.get("memlock", 0))
    return total
