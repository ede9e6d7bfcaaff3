"""What a thread of a live process is doing, told by the kernel without touching it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.target.syscalls import FUTEX


@dataclass(frozen=True, slots=True)
class Activity:
    """What a thread does; `syscall` is its number, None where it is in none, or runs."""

    running: bool  # on a CPU, or ready
    stopped: bool = False  # by SIGSTOP, or by a tracer
    syscall: int | None = None
    first_argument: int = 0
    stack_pointer: int = 0  # of one that is blocked, in user mode
    pc: int = 0
    switches: int | None = None  # how often it was switched in; None where the kernel does not count

    def waits_on(self, ranges: list[range]) -> bool:
        """Whether it waits for a futex in one of these ranges of addresses."""
        return self.syscall == FUTEX and any(self.first_argument in addresses for addresses in ranges)

    def is_followed_by(self, later: Activity) -> bool:
        """Whether a thread that was blocked has stood still from this to a later look: it was not switched in."""
        return not self.running and self.switches is not None and self.switches == later.switches


def thread_activity(pid: int, tid: int) -> Activity | None:
    """Look at a thread; None: it has gone.

    /proc/PID/task/TID/syscall (fs/proc/base.c, proc_pid_syscall) is "running", or the number of the system call and
    its arguments; the number -1 where the thread is blocked outside of one. schedstat is "CPU time, run delay, times
    switched in" (Documentation/scheduler/sched-stats.rst); the count is taken first, so that what is told of a thread
    that moves meanwhile is not taken to have lasted.
    """
    task = Path(f"/proc/{pid}/task/{tid}")
    try:
        switches = _switches(task)
        stat = (task / "stat").read_bytes()
        words = _read(task / "syscall").split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    letter = stat.rpartition(b")")[2][1:2]
    if letter in b"ZX":
        return None
    # Where the kernel has no such file, or keeps it from us, the state in stat has to do.
    running = words[0] == b"running" if words else letter == b"R"
    number = int(words[0]) if words and not running else -1
    return Activity(
        running=running,
        stopped=letter in (b"T", b"t"),
        syscall=number if number >= 0 else None,
        first_argument=int(words[1], 16) if number >= 0 else 0,
        stack_pointer=_number(words[-2:-1]) if not running else 0,
        pc=_number(words[-1:]) if not running else 0,
        switches=switches,
    )


def _number(words: list[bytes]) -> int:
    return int(words[0], 16) if words else 0


def _switches(task: Path) -> int | None:
    words = _read(task / "schedstat").split()
    return int(words[2]) if len(words) == 3 else None


def _read(path: Path) -> bytes:
    """Read a file that this kernel may lack, or that it may not let us read."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, PermissionError):
        return b""
