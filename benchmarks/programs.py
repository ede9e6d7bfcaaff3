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

from benchmarks.processes import cpu_s_of

TARGETS = Path(__file__).with_name("targets")
# Peers that run in a chroot themselves need /proc there, and have to see the program's files under the names that it
# has: all is done in a mount namespace of the program's own, which ends with it.
_IN_CHROOT = 'mount -t proc proc "$2/proc"; exec "$@"'  # chroot TREE PYTHON ...


OLDEST = (3, 9)  # that all targets run on


def newest(minor: tuple[int, int]) -> Interpreter | None:
    """The newest interpreter of a version, outside of a chroot if there is one; None: it is not on this machine."""
    found = [each for each in all_interpreters() if each.minor == minor and not each.free_threaded]
    return max(found, key=lambda each: (each.chroot is None, each.version), default=None)


def known_to_all(wanted: tuple[int, int] = (3, 13)) -> Interpreter | None:
    """An interpreter of a version that all peers know; without it the newest one before it.

    Not one in a chroot, where austin finds no Python and packages cannot be installed.
    """
    found = [
        each
        for each in all_interpreters()
        if OLDEST <= each.minor <= wanted and each.chroot is None and not each.free_threaded
    ]
    return max(found, key=lambda each: each.version, default=None)


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
    """How a target got on, a second: the work that it did and the CPU time that it had."""

    work: float
    cpu_s: float
    # What a server's client has waited, in the median and in the longest hundredth:
    p50_ms: float | None = None
    p99_ms: float | None = None


class Worker:
    """A running program that writes how much work it has done into a file."""

    def __init__(self, pid: int, counter: mmap.mmap) -> None:
        self.pid = pid
        self._counter = counter

    def work(self) -> int:
        """How much it has done."""
        return int(struct.unpack_from("=q", self._counter)[0])

    def speed(self, seconds: float) -> Speed:
        """How fast it is, over so many seconds from now."""
        work, cpu_s, start = self.work(), cpu_s_of(self.pid), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - start
        return Speed((self.work() - work) / passed, (cpu_s_of(self.pid) - cpu_s) / passed)


@contextlib.contextmanager
def running_worker(
    interpreter: Interpreter, running: int = 1, blocked: int = 0, *, sorts: int = 0, depth: int = 26
) -> Iterator[Worker]:
    """Run targets/worker.py; `sorts`: how often its calls go through a C function."""
    with running_counter(interpreter, TARGETS / "worker.py", running, blocked, sorts, depth) as worker:
        yield worker


@contextlib.contextmanager
def running_counter(interpreter: Interpreter, script: Path, *arguments: object) -> Iterator[Worker]:
    """Run a script whose first argument is the file that it is to write its work into."""
    with tempfile.NamedTemporaryFile(dir=interpreter.chroot and interpreter.chroot / "tmp") as file:
        file.write(bytes(8))
        file.flush()
        counter = interpreter.inside(Path(file.name))
        with running_program(interpreter, script, counter, *arguments) as target:
            time.sleep(0.5)
            yield Worker(target.pid, mmap.mmap(file.fileno(), 8))
