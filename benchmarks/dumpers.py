"""What prints a thread's stack, Python and native: weft, py-spy, pystack; and gdb, by which they are judged."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.install import program
from benchmarks.peers import PeerFailedError

PYTHON, NATIVE, OTHER = "python", "native", "other"
NAMELESS = "?"
LIMIT_S = 120


@dataclass(frozen=True)
class Place:
    """A frame: its kind and its function's name, without what tools write around it in different ways."""

    kind: str
    function: str


def plain(kind: str, name: str) -> Place:
    """A place by a tool's name of it.

    Of qualified names the last part; of C++ no arguments, of the C library no prefixes of its own, no marks of the
    compiler's on parts of functions, of Cython's symbols what they are of in the source; and one name for all that have
    none.
    """
    if kind == PYTHON:
        return Place(kind, name.rpartition(".")[2])
    name = name.replace("(anonymous namespace)::", "").replace("{anonymous}::", "")
    name = re.sub(r"\.(cold|constprop|isra|part|lto_priv|llvm)\b.*", "", name.partition("@")[0])
    name = re.split(r"[(<]", name)[0].rpartition("::")[2] if "::" in name else re.split(r"[(]", name)[0]
    cython = re.fullmatch(r"__pyx_\w+?_?\d*([A-Za-z][A-Za-z]*)", name)
    if cython:
        return Place(NATIVE, cython[1])
    if re.fullmatch(r"\?+|0x[0-9a-f]+|fun_[0-9a-f]+", name):
        return Place(NATIVE, NAMELESS)
    name = re.sub(r"^(__GI_)?(__libc_)?_*", "", name)
    return Place(NATIVE, re.sub(r"^start_main_impl$", "start_main", name))


class Dumper:
    """A tool that prints stacks."""

    def __init__(self, name: str, *command: str | Path) -> None:
        self.name = name
        self._command = [str(word) for word in command]

    def stack(self, pid: int, tid: int) -> list[Place]:
        """Of one thread, root first. PeerFailedError."""
        try:
            run = subprocess.run(
                [*self._command, str(pid)], check=False, capture_output=True, text=True, timeout=LIMIT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PeerFailedError(str(error)) from None
        if run.returncode:
            why = " ".join(run.stderr.partition("Stack backtrace:")[0].split())
            raise PeerFailedError(f"it ended with {run.returncode}: {why}")
        places = self._read(run.stdout, tid)
        if not places:
            raise PeerFailedError(f"it shows no thread {tid}")
        return places

    def _read(self, text: str, tid: int) -> list[Place]:
        raise NotImplementedError


class WeftDump(Dumper):
    """weft dump, as it prints stacks, or with all frames of the interpreter's."""

    def __init__(self, *, all_frames: bool = False) -> None:
        name = "weft dump --all-frames" if all_frames else "weft dump"
        super().__init__(name, sys.executable, "-m", "weft", "dump", "--json")
        self._all_frames = all_frames

    def _read(self, text: str, tid: int) -> list[Place]:
        threads = [thread for thread in json.loads(text)["threads"] if thread["tid"] == tid]
        frames = threads[0]["frames"] if threads else []
        return [
            plain(PYTHON if frame["kind"] == PYTHON else NATIVE, frame["function"].rpartition(".")[2])
            if frame["kind"] == "cython"
            else plain(frame["kind"], frame["function"])
            for frame in reversed(frames)
            if frame["kind"] not in ("kernel", "marker") and (self._all_frames or not frame.get("machinery"))
        ]


class PySpyDump(Dumper):
    """py-spy dump --native."""

    def __init__(self) -> None:
        super().__init__("py-spy --native", program("py-spy", "py-spy"), "dump", "--native", "--json", "-p")

    def _read(self, text: str, tid: int) -> list[Place]:
        threads = [thread for thread in json.loads(text) if thread["os_thread_id"] == tid]
        frames = threads[0]["frames"] if threads else []
        return [
            plain(
                PYTHON if frame["filename"].endswith(".py") or frame["filename"].startswith("<") else NATIVE,
                frame["name"],
            )
            for frame in reversed(frames)
        ]


class PystackDump(Dumper):
    """pystack remote --native."""

    def __init__(self) -> None:
        super().__init__("pystack --native", program("pystack", "pystack"), "remote", "--native", "--no-color")

    def _read(self, text: str, tid: int) -> list[Place]:
        found = re.search(rf"^Traceback for thread {tid} .*?$(.*?)(?=^Traceback|\Z)", text, re.MULTILINE | re.DOTALL)
        lines = re.findall(r"^    \((C|Python)\) File .*?, line \d+, in (.*)$", found[1] if found else "", re.MULTILINE)
        return [
            plain(PYTHON, name)
            if kind == "Python"
            else plain(NATIVE, re.sub(r" \((inlined|/[^()]*|\?\?\?)\)", "", name))
            for kind, name in lines
        ]


KERNEL = 1 << 63  # addresses from here on


class PerfDump(Dumper):
    """perf record, of the switch by which a thread that was stopped and goes on comes back to its wait."""

    def __init__(self) -> None:
        super().__init__("perf --call-graph dwarf", "perf")

    def stack(self, pid: int, tid: int) -> list[Place]:
        """Of one thread, root first. PeerFailedError."""
        if shutil.which("perf") is None:
            raise PeerFailedError("it is not installed")
        with tempfile.TemporaryDirectory() as folder:
            output = f"{folder}/perf.data"
            event = ["-e", "context-switches", "-c", "1", "--call-graph", "dwarf,65528"]
            with subprocess.Popen(["perf", "record", "-q", *event, "-o", output, "-p", str(pid)]) as recorder:
                time.sleep(1)
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.2)
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.5)
                recorder.send_signal(signal.SIGINT)
            script = ["perf", "script", "--no-inline", "-F", "tid,ip,sym", "-i", output]
            run = subprocess.run(script, check=False, capture_output=True, text=True, timeout=LIMIT_S)
        places = self._read(run.stdout, tid)
        if not places:
            why = "" if os.geteuid() == 0 else ": of switches the kernel tells root, as a rule"  # perf_event_paranoid
            raise PeerFailedError(f"it shows no thread {tid}{why}")
        return places

    def _read(self, text: str, tid: int) -> list[Place]:
        samples = [sample.splitlines() for sample in text.split("\n\n") if sample.strip()]
        of_thread = [lines[1:] for lines in samples if lines[0].split() == [str(tid)]]
        frames = [line.split(None, 1) for line in of_thread[-1]] if of_thread else []
        return [plain(NATIVE, name) for address, name in reversed(frames) if int(address, 16) < KERNEL]


def gdb_version() -> list[str]:
    """As it says, if it is there."""
    if shutil.which("gdb") is None:
        return []
    run = subprocess.run(["gdb", "--version"], check=False, capture_output=True, text=True)
    return [run.stdout.partition("\n")[0].replace("GNU ", "")]


class Gdb(Dumper):
    """gdb, with gdb_stack.py."""

    def __init__(self) -> None:
        super().__init__("gdb", "gdb", "-batch", "-nx", "-iex", "set auto-load off")

    def stack(self, pid: int, tid: int) -> list[Place]:
        """Frames that the interpreter has of another stack (a greenlet's parent's) are OTHER. PeerFailedError."""
        script = Path(__file__).with_name("gdb_stack.py")
        settings = ["-ex", "set backtrace past-main on", "-ex", f"set $weft_tid = {tid}"]
        command = [*self._command, "-p", str(pid), *settings, "-x", str(script)]
        run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
        lines = [line for line in run.stdout.splitlines() if line.startswith("stack ")]
        if not lines:
            raise PeerFailedError(f"gdb tells no stack: {run.stderr.strip().rpartition(chr(10))[2]}")
        frames = json.loads(lines[0].removeprefix("stack "))
        if any(kind == "left" for kind, _ in frames):
            raise PeerFailedError("gdb has Python frames that lie in no activation")
        return [Place(OTHER, name) if kind == OTHER else plain(kind, name) for kind, name in reversed(frames)]
