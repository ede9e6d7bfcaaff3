"""What processes have used: CPU time of threads, resident memory of a process and all that it has started."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path


def cpu_s_of(pid: int) -> float:
    """The CPU time that the threads of a process have had (the kernel's Documentation/scheduler/sched-stats.rst)."""
    return sum(int(file.read_bytes().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def tree(pid: int) -> list[int]:
    """A process and its descendants; those that have ended meanwhile are left out."""
    found = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [each for child in (task / "children").read_text().split() for each in tree(int(child))]
    return found


def cpu_s_of_tree(pid: int) -> float:
    """The CPU time that a process and its living descendants have had, to the ns. OSError: it has ended.

    Of all threads, those that have ended, too: by the clocks of clock_getcpuclockid(3), which are these numbers.
    """
    return sum(time.clock_gettime(~each << 3 | 2) for each in tree(pid))


def most_resident_bytes(pid: int) -> int:
    """The most that has been resident at one time of each process of a tree that lives now, added up.

    Pages that they share count for each. (ru_maxrss, which wait4 tells, is that of whoever has started it, if that is
    more.)
    """
    return sum(_status_bytes(each, "VmHWM") for each in tree(pid))


def resident_bytes(pid: int) -> int:
    """Of a process and its descendants, now; 0 if it has ended."""
    return sum(_status_bytes(each, "VmRSS") for each in tree(pid))


def _status_bytes(pid: int, what: str) -> int:
    with contextlib.suppress(OSError):
        found = re.search(rf"^{what}:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0  # a process that is ending has none
    return 0
