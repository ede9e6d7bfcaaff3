"""Profilers of which a program is started: what the program tells, what it costs, and what each writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from interpreters import Interpreter

from benchmarks import install
from benchmarks.peers import PeerFailedError, environment

LIMIT_S = 300  # of a program that takes seconds
IN_PROCESS = ["memray==1.20.0", "scalene==2.4.0"]


@dataclass(frozen=True)
class Launch:
    """One run of a program from its start to its end."""

    told: dict[str, Any]  # by the program, in its last line
    cpu_s: float  # of all processes
    wall_s: float
    output: Path
    file_bytes: int


class Launcher(Protocol):
    """What starts a program and records it."""

    name: str

    def missing(self, interpreter: Interpreter) -> str:
        """Why it cannot run programs of this interpreter here, in a few words; "": it can."""

    def command(self, interpreter: Interpreter, program: Sequence[str], output: Path) -> list[str]:
        """The command line; `program`: a script and its arguments."""


class Alone:
    """No recorder."""

    name = "alone"

    def missing(self, interpreter: Interpreter) -> str:
        """Nothing is."""
        return ""

    def command(self, interpreter: Interpreter, program: Sequence[str], output: Path) -> list[str]:
        """The program itself."""
        return [*interpreter.command, *program]


class WeftAlloc:
    """weft record --mode alloc."""

    name = "weft --mode alloc"

    def missing(self, interpreter: Interpreter) -> str:
        """It takes the kernel's probes."""
        return "it needs root" if os.geteuid() else ""

    def command(self, interpreter: Interpreter, program: Sequence[str], output: Path) -> list[str]:
        """Of the whole run."""
        record = [sys.executable, "-m", "weft", "record", "--mode", "alloc", "-f", "weft", "-o", str(output)]
        return [*record, "--", *interpreter.command, *program]


class InProcess:
    """One that is a package of the program's own interpreter."""

    def __init__(self, name: str, options: Sequence[str], separator: Sequence[str] = ()) -> None:
        self.name = name
        self._program = name.partition(" ")[0]
        self._options = list(options)
        self._separator = list(separator)  # before the program's own arguments

    def missing(self, interpreter: Interpreter) -> str:
        """It has to be installed for this interpreter."""
        if interpreter.chroot is not None or not install.make(*_environment(interpreter)):
            return "it could not be installed"
        return ""

    def command(self, interpreter: Interpreter, program: Sequence[str], output: Path) -> list[str]:
        """The package's own command, of an environment of this interpreter."""
        own = str(install.program(_environment(interpreter)[0], self._program))
        return [own, *self._options, "-o", str(output), program[0], *self._separator, *program[1:]]


def _environment(interpreter: Interpreter) -> tuple[str, list[str], str]:
    return f"in-process-{interpreter.name}", IN_PROCESS, interpreter.command[0]


def launch(launcher: Launcher, interpreter: Interpreter, program: Sequence[str], folder: Path) -> Launch:
    """Run it. PeerFailedError."""
    if why := launcher.missing(interpreter):
        raise PeerFailedError(why)
    output = folder / "recording.json"  # scalene gives others another ending
    output.unlink(missing_ok=True)
    begin = time.monotonic()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:
        command = launcher.command(interpreter, program, output)
        process = subprocess.Popen(
            command, env=environment(), cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=errors
        )
        limit = threading.Timer(LIMIT_S, os.kill, (process.pid, signal.SIGKILL))
        limit.start()
        _, status, usage = os.wait4(process.pid, 0)
        limit.cancel()
        wall_s = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        errors.seek(0)
        told = [line for line in said.read().decode(errors="replace").splitlines() if line.startswith("{")]
        if process.returncode or not told:
            why = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise PeerFailedError(f"it ended with {process.returncode}{why and ': '}{why}")
    file_bytes = output.stat().st_size if output.exists() else 0
    return Launch(json.loads(told[-1]), usage.ru_utime + usage.ru_stime, wall_s, output, file_bytes)
