"""A live process: is it there, is it ours to read, what is it, and what runs in it."""

from __future__ import annotations

import errno
import os
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from weft.errors import NoSuchProcessError, PermissionDeniedError, TargetError, TargetExitedError
from weft.target.elf import ElfFile
from weft.target.image import Image
from weft.target.maps import Mapping, read_maps, read_maps_text
from weft.target.memory import ProcessMemory
from weft.target.namespaces import namespace_ids, open_module, target_paths

_CAP_SYS_PTRACE = 19  # linux/capability.h
_CAPS_DAC = (1, 2)  # CAP_DAC_OVERRIDE, which Docker's containers have, and CAP_DAC_READ_SEARCH
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # of ours: they say nothing of the process
_MOST_TEXT = 1 << 20  # bytes of a file of the kernel's that is read whole


class Thread(NamedTuple):
    """A thread: its id as weft sees it, and its name as the kernel has it (at most 15 bytes)."""

    tid: int
    name: str


class Process:
    """A live process by its PID. NoSuchProcessError if there is none.

    The start time is noted, so that a PID that was given to another process meanwhile is found out by `is_alive`.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.start_ticks = self._stat_start()

    def __str__(self) -> str:
        try:
            return f"process {self.pid} ({self.name})"
        except TargetError:
            return f"process {self.pid}"

    def _stat(self) -> list[bytes]:
        """Return the fields of /proc/PID/stat from the state (field 3 in proc(5)) on; the name may hold anything."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError as error:
            if error.errno in _SHORTAGES:
                raise _cannot_now(self.pid, error) from error
            raise NoSuchProcessError(f"no process has the PID {self.pid}") from error
        return text.rpartition(b")")[2].split()

    def _stat_start(self) -> int:
        return int(self._stat()[19])

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs: not gone, no zombie, not another one with its PID."""
        try:
            fields = self._stat()
        except NoSuchProcessError:
            return False
        return fields[0] not in (b"Z", b"X") and int(fields[19]) == self.start_ticks

    @property
    def program(self) -> list[bytes]:
        """What tells the program that it runs from the one after an exec: where code begins and ends, and the stack."""
        return self._stat()[23:26]

    @property
    def parent(self) -> int:
        """The PID of its parent."""
        return int(self._stat()[1])

    @property
    def start_ns(self) -> int:
        """When it started, in ns of CLOCK_BOOTTIME; a clock tick (10 ms) fine."""
        return self.start_ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")

    @property
    def command(self) -> list[str]:
        """The arguments as they stand in its memory; none of a zombie, or in the midst of an exec."""
        text = self._read("cmdline")
        return (
            [part.decode("utf-8", "surrogateescape") for part in text.removesuffix(b"\0").split(b"\0")] if text else []
        )

    @property
    def name(self) -> str:
        """The name that the kernel has for it."""
        return _text(self._read("comm"))

    @property
    def executable(self) -> str | None:
        """The path of its program in its own mount namespace; None if the kernel won't tell."""
        try:
            return str(Path(f"/proc/{self.pid}/exe").readlink()).removesuffix(" (deleted)")
        except OSError:
            return None

    def threads(self) -> list[Thread]:
        """Return its threads, in order of their ids. Those that end meanwhile are left out."""
        found = []
        for tid in self._task_ids():
            try:
                found.append(Thread(tid, _text(Path(f"/proc/{self.pid}/task/{tid}/comm").read_bytes())))
            except OSError:
                continue
        return found

    def namespace_ids(self) -> dict[int, int]:
        """Return each thread's id as weft sees it -> in the target's own PID namespace."""
        try:
            return namespace_ids(self.pid)
        except OSError as error:
            raise self.refused(error) from error

    def open_module(self, image: Image) -> ElfFile | None:
        """Open the very file that an image was mapped from; None if it cannot be had."""
        return open_module(self.pid, image)

    def paths(self, path: str) -> tuple[str, ...]:
        """Return our paths of a file that the target calls `path` (absolute), the likeliest first."""
        return target_paths(self.pid, path)

    def children(self, *, recursive: bool = False) -> list[int]:
        """Return the PIDs of its children, or of all its descendants: parents before children."""
        found: list[int] = []
        queue = [self.pid]
        while queue:
            children = [pid for pid in _children(queue.pop(0)) if pid not in found]
            found += children
            queue += children if recursive else []
        return found

    def maps(self) -> list[Mapping]:
        """Return its mappings. PermissionDeniedError, TargetExitedError."""
        try:
            mappings = read_maps(self.pid)
        except OSError as error:
            raise self.refused(error) from error
        if not mappings and not self.is_alive:
            raise TargetExitedError(f"process {self.pid} has ended")
        return mappings

    def maps_mark(self) -> int:
        """Return a number that is another one once its mappings are. PermissionDeniedError, TargetExitedError.

        But for one change in 2**64. To read them takes a tenth of what it takes to understand them.
        """
        try:
            return hash(read_maps_text(self.pid))
        except OSError as error:
            raise self.refused(error) from error

    @cached_property
    def memory(self) -> ProcessMemory:
        """Its memory, opened once. PermissionDeniedError, TargetExitedError."""
        try:
            return ProcessMemory(self.pid)
        except OSError as error:
            raise self.refused(error) from error

    def refused(self, error: OSError) -> TargetError:
        """Return the error that says why the kernel refused, and what to do about it."""
        if error.errno in (errno.EACCES, errno.EPERM) and self.is_alive:
            return PermissionDeniedError(f"process {self.pid} is not ours to read: {self._why_refused()}")
        if error.errno in _SHORTAGES:
            return _cannot_now(self.pid, error)
        return TargetExitedError(f"process {self.pid} has ended")

    def _why_refused(self) -> str:
        """Say which check of the kernel's __ptrace_may_access (kernel/ptrace.c) or of Yama it was, in its order."""
        status = self._status()
        ids = {int(number) for key in ("Uid", "Gid") for number in status.get(key, "").split()}
        ours = {os.getuid(), os.getgid()}
        if _has_capability(_CAP_SYS_PTRACE):
            if not ids <= ours and not any(map(_has_capability, _CAPS_DAC)):
                # /proc/PID/mem is a file that its owner alone may open.
                return "it runs as another user; that takes CAP_DAC_READ_SEARCH, too"
            return "it is in another user namespace, or a security module forbids it; run weft inside its container"
        if not ids <= ours:
            return "it runs as another user; run weft as root (sudo), or as that user"
        scope = _number("/proc/sys/kernel/yama/ptrace_scope")  # Documentation/admin-guide/LSM/Yama.rst
        if scope >= 3:
            return "/proc/sys/kernel/yama/ptrace_scope is 3: nobody may read another process until the next boot"
        if scope == 2:
            return "/proc/sys/kernel/yama/ptrace_scope is 2; run weft as root (sudo)"
        if scope == 1:
            return (
                "/proc/sys/kernel/yama/ptrace_scope lets only a parent; start the program with `weft record -- ...`,"
                " run weft as root (sudo), or `echo 0 | sudo tee /proc/sys/kernel/yama/ptrace_scope`"
            )
        if _capabilities(status) & ~_capabilities(_read_status("self")):
            return "it has capabilities that weft lacks; run weft as root (sudo)"
        return "it is set-user-ID or has made itself undumpable (prctl PR_SET_DUMPABLE); run weft as root (sudo)"

    def cgroup(self) -> str:
        """Return the path of its cgroup (v2, or the first of v1); "" if the kernel won't tell."""
        line = self._read("cgroup").partition(b"\n")[0]
        return _text(line.split(b":", 2)[-1])

    def _status(self) -> dict[str, str]:
        return _read_status(str(self.pid))

    def _task_ids(self) -> list[int]:
        try:
            return sorted(int(task.name) for task in Path(f"/proc/{self.pid}/task").iterdir())
        except OSError as error:
            raise TargetExitedError(f"process {self.pid} has ended") from error

    def _read(self, name: str) -> bytes:
        """The beginning: a process may have the kernel take gigabytes for its arguments (prctl(2), PR_SET_MM_MAP)."""
        try:
            with Path(f"/proc/{self.pid}/{name}").open("rb") as file:
                return file.read(_MOST_TEXT)
        except OSError as error:
            raise self.refused(error) from error


def _cannot_now(pid: int, error: OSError) -> TargetError:
    return TargetError(f"process {pid} cannot be read now: {error.strerror}; raise the limit (ulimit -n)")


def _text(raw: bytes) -> str:
    return raw.removesuffix(b"\n").decode("utf-8", "surrogateescape")


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process; none if it has gone. Needs CONFIG_PROC_CHILDREN, else scans."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []
    found: list[int] = []
    for task in tasks:
        try:
            found += map(int, (task / "children").read_bytes().split())
        except OSError:
            if not Path("/proc/self/task", str(os.getpid()), "children").exists():
                return _children_by_scan(pid)
    return found


def _children_by_scan(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            process = Process(int(entry.name))
            if process.parent == parent:
                found.append(process.pid)
        except NoSuchProcessError:
            continue
    return found


def _read_status(pid: str) -> dict[str, str]:
    try:
        text = Path(f"/proc/{pid}/status").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return {}
    return {key: value.strip() for key, colon, value in (line.partition(":") for line in text.split("\n")) if colon}


def _capabilities(status: dict[str, str]) -> int:
    """Return the permitted capabilities: the set that the kernel compares (security/commoncap.c)."""
    return int(status.get("CapPrm", "0"), 16)


def _has_capability(number: int) -> bool:
    return bool(int(_read_status("self").get("CapEff", "0"), 16) >> number & 1)


def _number(path: str) -> int:
    try:
        return int(Path(path).read_bytes())
    except (OSError, ValueError):
        return 0
