"""Which collector can run here, and why not the others."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from weft.errors import CollectorError


class Collector(StrEnum):
    """What takes the samples."""

    AUTO = "auto"
    PTRACE = "ptrace"
    PEEK = "peek"  # sees threads and programs begin late, and without CPU clocks leans towards code that rarely calls


def tracer_of(pid: int) -> int:
    """Return the PID of the process that traces this one (gdb, strace, ...), 0 if none does."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("TracerPid:"):
                return int(line.split()[1])
    return 0


def choose(asked: Collector, pid: int) -> Collector:
    """Return the collector for a process. CollectorError if none can run.

    A process has one tracer at most (ptrace(2)); under a debugger only peek works, and since its profile is worse it is
    never chosen silently.
    """
    if asked is Collector.PEEK:
        return asked
    if tracer := tracer_of(pid):
        raise CollectorError(
            f"process {pid} is traced by process {tracer} (gdb, strace or another profiler); "
            "end that, or use --collector peek"
        )
    return Collector.PTRACE
