"""The recorders that are compared, each run as its users run it, and what one recording of each costs and says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

from interpreters import Interpreter, chroots

import weft
from benchmarks.install import program
from benchmarks.kernel_time import kernel_time
from benchmarks.processes import cpu_s_of_tree, most_resident_bytes
from benchmarks.programs import newest
from weft import Capture, Profile
from weft.profile.tables import View
from weft.sample import Frame, FrameKind

# Root first. What a profiler adds to a stack of Python is left out.
Stack = tuple[Frame, ...]


def places(stack: Stack) -> list[tuple[str, int]]:
    """Function and line of the Python frames."""
    return [(frame.function, frame.line) for frame in stack if frame.kind is FrameKind.PYTHON]


@dataclass(frozen=True)
class Told:
    """What a recording says of itself. None: it does not say."""

    samples: int
    late: int | None = None
    lost: int | None = None
    truncated: int | None = None
    degraded: int | None = None
    seams: int | None = None  # between Python's frames and native ones
    seams_proven: int | None = None
    hold_median_s: float | None = None
    hold_longest_s: float | None = None
    seconds: float | None = None
    behind_s: float = 0.0  # how long it went on after its time, for samples that it had not taken in time
    kernel_s: float = 0.0  # of its own programs in the kernel, in the target's time: no process's CPU time has it


@dataclass(frozen=True)
class Run:
    """One recording: what it told, and its cost."""

    told: Told
    seconds: float  # for which it recorded: of those that do not say, what they were told to
    cpu_s: float  # of its processes, and of its programs in the kernel
    peak_bytes: int  # of resident memory, of all of its processes
    kernel_bytes: int  # of its maps in the kernel
    file_bytes: int
    stacks: list[tuple[Stack, float]] = field(default_factory=list)  # only if they were asked for, with their weights
    read_cpu_s: float = 0.0  # what it took to read these
    steady_cpu: float = 0.0  # of one CPU, kernel and all, while `Recording.steadily` counted


class PeerFailedError(Exception):
    """A recording that came to nothing: what the recorder said, in one line."""


class Peer(Protocol):
    """A recorder, with the options that a row is about."""

    name: str
    good: frozenset[int]  # exit statuses of a recording that went well

    def missing(self, interpreter: Interpreter) -> str:
        """Why it cannot record programs of this interpreter here, in a few words; "": it can."""

    def version(self) -> str:
        """Of the program."""

    def command(self, pid: int, rate_hz: int, seconds: float, output: Path) -> list[str]:
        """The command line of a recording."""

    def told(self, output: Path, said: str) -> Told:
        """What the recording says; `said`: on stdout and stderr."""

    def stacks(self, output: Path) -> Iterator[tuple[Stack, float]]:
        """Its stacks with their weights; native frames, too, if these are recorded."""


class Weft:
    """weft record, of Python's frames alone or of native ones too."""

    good = frozenset({0})

    def __init__(self, collector: str, *options: str, native: bool = False, idle: bool = False) -> None:
        self.name = " ".join(["weft", collector, *options]) + native * " --native"
        self._idle = idle
        self._collector = collector
        self._options = ["--collector", collector, "--native" if native else "--no-native", *options]

    def missing(self, interpreter: Interpreter) -> str:
        """The bpf collector is root's."""
        return "it needs root" if self._collector == "bpf" and os.geteuid() else ""

    def version(self) -> str:
        """Of the package."""
        return f"weft {weft.__version__}"

    def command(self, pid: int, rate_hz: int, seconds: float, output: Path) -> list[str]:
        """The command line of a recording."""
        record = [sys.executable, "-m", "weft", "record", *self._options, "-f", "weft"]
        return [*record, "-p", str(pid), "-r", str(rate_hz), "-d", str(seconds), "-o", str(output)]

    def told(self, output: Path, said: str) -> Told:
        """What its account says.

        Samples of CPU time are those at ticks: not the stacks that it takes besides, of threads that have blocked.
        """
        with Capture(output) as capture:
            account = capture.account()
            losses = list(capture.losses())
        besides = 0 if self._idle else account["stays"] + account["stacks_still"]
        seams = [account[f"seams_{how}"] for how in ("proven", "counted", "open")]
        return Told(
            samples=account["samples_taken"] - besides,
            late=account["samples_late"],
            lost=sum(loss.count for loss in losses if loss.weight_ns and loss.reason != "late"),
            truncated=account["stacks_truncated"],
            degraded=sum(loss.count for loss in losses if not loss.weight_ns),
            seams=sum(seams),
            seams_proven=seams[0],
            hold_median_s=account["hold_ns_median"] / 1e9,
            hold_longest_s=account["hold_ns_max"] / 1e9,
            seconds=account["recorded_ns"] / 1e9,
            kernel_s=account["hold_ns_total"] / 1e9 if self._collector == "bpf" else 0.0,
        )

    def stacks(self, output: Path) -> Iterator[tuple[Stack, float]]:
        """What it saw running, by time, the interpreter's own frames included.

        `idle`: what waits, too; the state of the thread is then a mark at the end.
        """
        with Capture(output) as capture:
            profile = Profile.from_capture(capture, View(idle=self._idle, all_frames=True))
        for total in profile.totals:
            stack = tuple(profile.frames[frame] for frame in profile.stacks.path(total.stack))
            mark = Frame(FrameKind.MARKER, total.state.name, "", 0)
            yield (*stack, mark) if self._idle else stack, total.weight_ns


class PySpy:
    """py-spy record: blocking, as it is by default, or not."""

    good = frozenset({0})

    def __init__(self, *options: str) -> None:
        self.name = " ".join(["py-spy", *options])
        self._options = options
        self._program = program("py-spy", "py-spy")

    def missing(self, interpreter: Interpreter) -> str:
        """It knows versions up to 3.13."""
        if interpreter.minor > (3, 13):
            return f"it knows no {interpreter.minor[0]}.{interpreter.minor[1]}"
        return "" if self._program.exists() else "it is not installed"

    def version(self) -> str:
        """As it says."""
        return _first_line(self._program, "--version")

    def command(self, pid: int, rate_hz: int, seconds: float, output: Path) -> list[str]:
        """The command line of a recording; its durations are whole seconds."""
        how = ["-r", str(rate_hz), "-d", str(max(1, round(seconds))), "-f", "raw", "-o", str(output)]
        return [str(self._program), "record", "-p", str(pid), *how, *self._options]

    def told(self, output: Path, said: str) -> Told:
        """Samples are the counts of its stacks."""
        errors, behind = re.search(r"Errors: (\d+)", said), re.findall(r"([\d.]+)s behind in sampling", said)
        samples = sum(count for _, count in self.stacks(output))
        lost = int(errors[1]) if errors else None
        return Told(samples=round(samples), lost=lost, behind_s=float(behind[-1]) if behind else 0.0)

    def stacks(self, output: Path) -> Iterator[tuple[Stack, float]]:
        """A line a stack, its count at the end."""
        for line in output.read_text(errors="replace").splitlines():
            text, _, count = line.rpartition(" ")
            yield tuple(map(_frame_of_py_spy, text.split(";"))), float(count)


def _frame_of_py_spy(text: str) -> Frame:
    """Native frames are `function (library)`, or `function (file.c:line)`; `__init__ (__init__)` is CPython's own."""
    found = re.fullmatch(r"(.*) \((.*?)(?::(\d+))?\)", text)
    function, file, line = found.groups() if found else (text, "", None)
    kind = FrameKind.PYTHON if file.endswith(".py") or file.startswith("<") else FrameKind.NATIVE
    return Frame(kind, function, file, line=int(line or 0))


LOADER = "ld-linux-x86-64.so.2"


class Austin:
    """Austin, of wall time by default; its frames are `file:function:line`."""

    good = frozenset({0, 254})  # 254 where the time is up

    def __init__(self, *options: str) -> None:
        self.name = " ".join(["austin", *options])
        self._options = options
        self._program = program("austin", "austin")
        # Built for glibc 2.38: on a machine with an older one it runs by the loader of a chroot that tests use.
        self._command = [str(self._program)]
        for tree in chroots():
            libraries = tree / "usr/lib/x86_64-linux-gnu"
            if not self.version():
                self._command = [str(libraries / LOADER), "--library-path", str(libraries), str(self._program)]

    def missing(self, interpreter: Interpreter) -> str:
        """It reads the program's files under their names in the program, and knows versions up to 3.14."""
        if interpreter.chroot is not None or interpreter.minor > (3, 14):
            return "it finds no Python in a chroot" if interpreter.chroot else "it knows no 3.15"
        return "" if self.version() else "it does not run here (it needs glibc 2.38, or a chroot that has it)"

    def version(self) -> str:
        """As it says."""
        return _first_line(*self._command, "--version")

    def command(self, pid: int, rate_hz: int, seconds: float, output: Path) -> list[str]:
        """The command line of a recording; its durations are whole seconds."""
        how = ["-i", str(1_000_000 // rate_hz), "-x", str(max(1, round(seconds))), "-o", str(output)]
        return [*self._command, *self._options, *how, "-p", str(pid)]

    def told(self, output: Path, said: str) -> Told:
        """At the end of its file: so many errors of so many samples, so many of them late."""
        text = self._text(output)
        errors, late = (re.search(rf"^# {word}: (\d+)/(\d+)", text, re.MULTILINE) for word in ("errors", "saturation"))
        if not errors or not late:
            raise PeerFailedError("its file has no account at its end")
        return Told(samples=int(errors[2]) - int(errors[1]), late=int(late[1]), lost=int(errors[1]))

    def stacks(self, output: Path) -> Iterator[tuple[Stack, float]]:
        """By time in us. A frame in line 0 is CPython's own."""
        for line in self._text(output).splitlines():
            if line.startswith("P"):
                text, _, weight = line.rpartition(" ")
                yield _of_places(text.split(";")[2:]), float(weight)

    def _text(self, output: Path) -> str:
        with tempfile.NamedTemporaryFile("r", errors="replace") as file:
            mojo2austin = program("austin", "mojo2austin")
            subprocess.run([str(mojo2austin), str(output), file.name], check=True, capture_output=True)
            return file.read()


class Tachyon:
    """CPython 3.15's own sampler, of all threads; in the same chroot and mount namespace as the program."""

    good = frozenset({0})

    def __init__(self, *options: str) -> None:
        self.name = " ".join(["profiling.sampling", *options])
        self._options = options

    def missing(self, interpreter: Interpreter) -> str:
        """It is a part of 3.15, and records that version only."""
        return "" if interpreter.minor == (3, 15) else "it records 3.15 only"

    def version(self) -> str:
        """That of its interpreter."""
        interpreter = newest((3, 15))
        return f"profiling.sampling of {interpreter.name}" if interpreter else ""

    def command(self, pid: int, rate_hz: int, seconds: float, output: Path) -> list[str]:
        """The command line of a recording."""
        interpreter = newest((3, 15))
        assert interpreter is not None
        enter = ["nsenter", f"--mount=/proc/{pid}/ns/mnt"] if interpreter.chroot else []
        how = ["-a", "--collapsed", "-r", str(rate_hz), "-d", str(round(seconds)), "-o", interpreter.inside(output)]
        return [*enter, *interpreter.command, "-m", "profiling.sampling", "attach", *how, *self._options, str(pid)]

    def told(self, output: Path, said: str) -> Told:
        """Samples are those in its file; its rate of errors, in percent, is of all that it tried."""
        tried, errors = re.search(r"Captured (\d+) samples", said), re.search(r"Error rate: ([\d.]+)", said)
        if not tried:
            raise PeerFailedError(f"it does not say how many samples it took: {said}")
        missed = re.search(r"[Mm]issed samples: (\d+)", said)
        lost = round(int(tried[1]) * float(errors[1]) / 100) if errors else 0
        return Told(
            samples=round(sum(count for _, count in self.stacks(output))),
            lost=lost,
            late=int(missed[1]) if missed else None,
        )

    def stacks(self, output: Path) -> Iterator[tuple[Stack, float]]:
        """A line a stack: `tid:N;file:function:line;... count`."""
        for line in output.read_text(errors="replace").splitlines():
            text, _, count = line.rpartition(" ")
            yield _of_places(text.split(";")[1:]), float(count)


def _of_places(parts: list[str]) -> Stack:
    """Frames as `file:function:line`; others are marks, and those without a line CPython's own."""
    found = [re.fullmatch(r"(.*):([^:]*):(-?\d+)", part) for part in parts]
    return tuple(Frame(FrameKind.PYTHON, each[2], each[1], int(each[3])) for each in found if each and int(each[3]) > 0)


def _first_line(*command: str | Path) -> str:
    """What a program says, or nothing where it does not run."""
    try:
        run = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)
    except OSError:
        return ""
    return run.stdout.strip().partition("\n")[0] if run.returncode == 0 else ""


@cache
def _cache_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="weft-bench-")


def environment() -> dict[str, str]:
    """Of recorders: what weft keeps of modules is this run's own, so nothing is there when it begins.

    pip compiles what it installs. An editable weft compiles itself when it first runs, unless this forbids it.
    """
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "XDG_CACHE_HOME": _cache_folder().name}


LIMIT_S = 120  # for the start and the end of a recording


class Recording:
    """A recorder at work; `finish` waits for its end. PeerFailedError: it cannot record this."""

    def __init__(self, peer: Peer, interpreter: Interpreter, pid: int, rate_hz: int, seconds: float) -> None:
        if why := peer.missing(interpreter):
            raise PeerFailedError(why)
        self._peer = peer
        self._folder = tempfile.TemporaryDirectory(dir=interpreter.chroot and interpreter.chroot / "tmp")
        self._output = Path(self._folder.name) / "recording"
        self._seconds = seconds
        self._limit = time.monotonic() + seconds + LIMIT_S
        self._steady_cpu = 0.0
        self._peak_bytes = self._kernel_bytes = 0
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed by finish)
        self._process = subprocess.Popen(
            peer.command(pid, rate_hz, seconds, self._output), env=environment(), stdout=self._said, stderr=self._said
        )

    @property
    def pid(self) -> int:
        """Of the recorder."""
        return self._process.pid

    @contextmanager
    def steadily(self) -> Iterator[None]:
        """Count what it takes meanwhile: neither its start nor its end. OSError: it has ended."""
        before, at = cpu_s_of_tree(self.pid), time.monotonic()
        yield
        self._steady_cpu = (cpu_s_of_tree(self.pid) - before) / (time.monotonic() - at)

    def finish(self, *, stacks: bool = False) -> Run:
        """Its CPU time is that of the whole process and its children, user and system (wait4(2)). PeerFailedError."""
        looks = 0
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            self._peak_bytes = max(self._peak_bytes, most_resident_bytes(self.pid))
            if looks % 20 == 0:  # each second: its maps do not grow
                self._kernel_bytes = max(self._kernel_bytes, kernel_time(self.pid).maps)
            if time.monotonic() > self._limit:
                self._process.kill()
            looks += 1
            time.sleep(0.05)
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        with self._folder, self._said:
            self._said.seek(0)
            said = self._said.read().decode(errors="replace")
            if self._process.returncode not in self._peer.good or not self._output.exists():
                why = said.strip().rpartition("\n")[2]
                raise PeerFailedError(f"it ended with {self._process.returncode}{why and ': '}{why}")
            told = self._peer.told(self._output, said)
            before = os.times()
            read = list(self._peer.stacks(self._output)) if stacks else []
            seconds = told.seconds or self._seconds + told.behind_s
            return Run(
                told,
                seconds,
                usage.ru_utime + usage.ru_stime + told.kernel_s,
                self._peak_bytes,
                self._kernel_bytes,
                self._output.stat().st_size,
                read,
                sum(os.times()[:4]) - sum(before[:4]),
                self._steady_cpu + told.kernel_s / seconds,
            )
