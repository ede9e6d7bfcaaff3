"""The recorders that are compared, each run as its users run it, and what one run of each costs."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft import Capture

TARGET = Path(__file__).with_name("target.py")


@dataclass(frozen=True)
class Speed:
    """How a target got on: the work that it did and the CPU time that it had, a second."""

    work: float
    cpu_s: float


class Target:
    """A running target.py, whose work can be read at any time."""

    def __init__(self, process: subprocess.Popen[str], counter: mmap.mmap) -> None:
        self.pid = process.pid
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
def running_target(python: str, running: int, blocked: int, sorts: int = 0) -> Iterator[Target]:
    """Run target.py under an interpreter; `sorts`: how often its calls go through a C function."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(8))
        file.flush()
        command = [python, str(TARGET), file.name, str(running), str(blocked), str(sorts)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.5)
            yield Target(process, mmap.mmap(file.fileno(), 8))
            assert process.stdin is not None
            process.stdin.close()


@dataclass(frozen=True)
class Run:
    """One recording: its cost, and what came of it. Times in seconds; None: the recorder does not tell."""

    cpu_s: float
    samples: int
    late: int | None = None
    lost: int | None = None
    hold_median_s: float | None = None
    hold_longest_s: float | None = None
    file_bytes: int = 0
    seconds: float = 0.0


class Weft:
    """weft record, of Python's frames alone or of native ones too."""

    def __init__(self, *, native: bool = False, collector: str = "ptrace") -> None:
        self.name = f"weft {collector}" + native * " --native"
        self._options = ["--collector", collector, "--native" if native else "--no-native"]

    def command(self, pid: int, rate_hz: int, seconds: float, output: Path) -> list[str]:
        """The command line of a recording."""
        rate, duration = str(rate_hz), str(seconds)
        weft = [sys.executable, "-m", "weft", "record", *self._options]
        return [*weft, "-p", str(pid), "-r", rate, "-d", duration, "-f", "weft", "-o", str(output)]

    def result(self, output: Path, cpu_s: float) -> Run:
        """What is in its capture."""
        with Capture(output) as capture:
            account = capture.account()
            losses = {loss.reason: loss.count for loss in capture.losses()}
        return Run(
            cpu_s=cpu_s,
            samples=account["samples_taken"],
            late=account["samples_late"],
            lost=sum(count for reason, count in losses.items() if reason != "late"),
            hold_median_s=account["hold_ns_median"] / 1e9,
            hold_longest_s=account["hold_ns_max"] / 1e9,
            file_bytes=output.stat().st_size,
            seconds=account["recorded_ns"] / 1e9,
        )


class PySpy:
    """py-spy record, in its default, blocking way, with or without native frames."""

    def __init__(self, *, native: bool = False) -> None:
        self.name = "py-spy" + native * " --native"
        self._options = ["--native"] if native else []

    def command(self, pid: int, rate_hz: int, seconds: float, output: Path) -> list[str]:
        """The command line of a recording; its durations are whole seconds."""
        program = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
        rate, duration = str(rate_hz), str(max(1, round(seconds)))
        options = ["-p", str(pid), "-r", rate, "-d", duration, "-f", "raw", "-o", str(output), *self._options]
        return [program, "record", *options]

    def result(self, output: Path, cpu_s: float) -> Run:
        """What is in its raw file: a line a stack, its count at the end."""
        counts = re.findall(r" (\d+)$", output.read_text(errors="replace"), re.MULTILINE)
        return Run(cpu_s=cpu_s, samples=sum(map(int, counts)))


Recorder = Weft | PySpy

# pip compiles what it installs. An editable weft compiles itself when it first runs, unless the environment forbids it.
_INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Recording:
    """A recorder at work; `finish` waits for its end."""

    def __init__(self, recorder: Recorder, target: Target, rate_hz: int, seconds: float) -> None:
        self._recorder = recorder
        self._folder = tempfile.TemporaryDirectory()
        self._output = Path(self._folder.name) / "recording"
        self._process = subprocess.Popen(
            recorder.command(target.pid, rate_hz, seconds, self._output),
            env=_INSTALLED,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def finish(self) -> Run:
        """Its cost is that of the whole process, user and system (wait4(2))."""
        assert self._process.stderr is not None
        errors = self._process.stderr.read()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._process.stderr.close()
        if self._process.returncode != 0:
            raise RuntimeError(f"{self._recorder.name} failed: {errors.decode()}")
        run = self._recorder.result(self._output, usage.ru_utime + usage.ru_stime)
        self._folder.cleanup()
        return run
