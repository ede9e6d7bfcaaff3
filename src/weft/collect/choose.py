"""Which collector can run here, and why not the others."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from weft.collect.bpf.kernel import kernel_release
from weft.errors import CollectorError

_OLDEST_KERNEL = (5, 18)  # whose tracepoint of switches tells in which state a thread leaves


class Collector(StrEnum):
    """What takes the samples."""

    AUTO = "auto"
    PTRACE = "ptrace"
    BPF = "bpf"  # in the kernel, on the thread itself
    PEEK = "peek"  # sees threads and programs begin late, and without CPU clocks leans towards code that rarely calls


def tracer_of(pid: int) -> int:
    """Return the PID of the process that traces this one (gdb, strace, ...), 0 if none does."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("TracerPid:"):
                return int(line.split()[1])
    return 0


def check_bpf() -> None:
    """Raise CollectorError where collector bpf would not know what it samples."""
    if kernel_release() < _OLDEST_KERNEL:
        raise CollectorError(
            f"collector bpf needs Linux 5.18, and this is {platform.release()}", "use --collector ptrace"
        )
    own = Path("/proc/self").readlink().name
    if own != str(os.getpid()):
        raise CollectorError(
            f"/proc is that of another PID namespace: this process is {os.getpid()} in its own, and {own} there",
            "mount a /proc for this one (unshare --mount-proc), or use --collector ptrace",
        )


def pid_namespace() -> int:
    """Return the number of the PID namespace that this process is in: that of its file in /proc/PID/ns."""
    return Path("/proc/self/ns/pid").stat().st_ino


def check_ptrace(pid: int) -> None:
    """Raise CollectorError where the process has a tracer already: it can have one (ptrace(2)).

    Only peek works then, and since its profile is worse it is never chosen silently.
    """
    if tracer := tracer_of(pid):
        raise CollectorError(
            f"process {pid} is traced by process {tracer} (gdb, strace or another profiler)",
            "end that, or use --collector peek",
        )


def collectors_for_machine(asked: Collector) -> list[Collector]:
    """Return the collectors that can record all processes of the machine, best first. CollectorError."""
    if asked not in (Collector.AUTO, Collector.BPF):
        raise CollectorError(f"collector {asked} takes one process at a time; all of the machine need collector bpf")
    return [Collector.BPF]


def collectors_for_process(asked: Collector) -> list[Collector]:
    """Return the collectors to try for a running process, best first."""
    return [Collector.BPF, Collector.PTRACE] if asked is Collector.AUTO else [asked]


def collectors_for_command(asked: Collector) -> list[Collector]:
    """Return the collectors to try for a command: only its tracer sees it from its first instruction."""
    return [Collector.PTRACE] if asked is Collector.AUTO else [asked]


def collectors_for_allocations(asked: Collector) -> list[Collector]:
    """Return the collectors that see allocations. CollectorError."""
    if asked not in (Collector.AUTO, Collector.BPF):
        raise CollectorError(f"collector {asked} sees no allocations: mode alloc needs collector bpf, as root")
    return [Collector.BPF]
