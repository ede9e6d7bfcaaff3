"""Programs that are recorded: the tests' targets and those in targets/, under any interpreter of the machine."""

from __future__ import annotations

import contextlib
import mmap
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import running
from interpreters import Interpreter, all_interpreters
from running import Target, target_env

TARGETS = Path(__file__).with_name("targets")
# Peers that run in a chroot themselves need /proc there, and have to see the program's files under the names that it
# has: all is done in a mount namespace of the program's own, which ends with it.
_IN_CHROOT = 'mount -t proc proc "$2/proc"; exec "$@"'  # chroot TREE PYTHON ...


def newest(minor: tuple[int, int]) -> Interpreter | None:
    """An interpreter of a version; one with symbols, if there is one; None: it is not on this machine."""
    found = [each for each in all_interpreters() if each.minor == minor and not each.free_threaded]
    return min(found, key=lambda each: (each.chroot is not None, each.name), default=None)


@contextlib.contextmanager
def running_program(interpreter: Interpreter, script: Path, *arguments: object) -> Iterator[Target]:
    """Run a script that tells that it is ready; beside it are the tests' targets."""
    with tempfile.TemporaryDirectory(dir=interpreter.chroot and interpreter.chroot / "tmp") as name:
        folder = Path(name)
        shutil.copytree(running.TARGETS, folder, dirs_exist_ok=True)
        path = interpreter.inside(Path(shutil.copy(script, folder)))
        command = interpreter.command
        if interpreter.chroot is not None:
            command = ["unshare", "--mount", "sh", "-c", _IN_CHROOT, "sh", *interpreter.command]
        target = Target([*command, path, *map(str, arguments)], target_env())
        try:
            yield target
        finally:
            target.end()


@dataclass(frozen=True)
class Speed:
    """How a target got on: the work that it did and the CPU time that it had, a second."""

    work: float
    cpu_s: float


class Worker:
    """A running targets/worker.py, whose work can be read at any time."""

    def __init__(self, pid: int, counter: mmap.mmap) -> None:
        self.pid = pid
        self._counter = counter

    def work(self) -> int:
        """How much it has done."""
        return int(struct.unpack_from("=q", self._counter)[0])

    def cpu_s(self) -> float:
        """The CPU time that its threads have had (the kernel's Documentation/scheduler/sched-stats.rst)."""
        files = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(file.read_bytes().split()[0]) for file in files) / 1e9

    def speed(self, seconds: float) -> Speed:
        """How fast it is, over so many seconds from now."""
        work, cpu_s, start = self.work(), self.cpu_s(), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - start
        return Speed((self.work() - work) / passed, (self.cpu_s() - cpu_s) / passed)


@contextlib.contextmanager
def running_worker(
    interpreter: Interpreter, running: int = 1, blocked: int = 0, *, sorts: int = 0, depth: int = 26
) -> Iterator[Worker]:
    """Run targets/worker.py; `sorts`: how often its calls go through a C function."""
    with tempfile.NamedTemporaryFile(dir=interpreter.chroot and interpreter.chroot / "tmp") as file:
        file.write(bytes(8))
        file.flush()
        counter = interpreter.inside(Path(file.name))
        with running_program(interpreter, TARGETS / "worker.py", counter, running, blocked, sorts, depth) as target:
            time.sleep(0.5)
            yield Worker(target.pid, mmap.mmap(file.fileno(), 8))
