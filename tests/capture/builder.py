"""Makes captures through CaptureWriter, as a recorder would, for tests that need one to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from weft._native import RunEncoder
from weft.capture import CaptureWriter
from weft.sample import Frame, FrameKind, State

START_NS = 5_000_000_000_000  # CLOCK_MONOTONIC of a machine that has been up for a while
SECOND = 1_000_000_000
META: Mapping[str, str | int] = {
    "version": "0.1.0",
    "command": "weft record -p 1234",
    "host": "testhost",
    "kernel": "6.1.0",
    "collector": "ptrace",
    "pacer": "its CPU clock",
    "mode": "wall",
    "rate_hz": 1000,
    "start_ns": START_NS,
    "start_unix_ns": 1_750_000_000 * SECOND,
}


def frame(function: str, line: int = 1, file: str = "/srv/app.py", first_line: int = 1) -> Frame:
    return Frame(FrameKind.PYTHON, function, file, line, first_line)


class CaptureBuilder:
    """A recording of one process with one thread until told otherwise. Stacks are lists of frames, root first."""

    def __init__(self, path: Path, meta: Mapping[str, str | int] | None = None) -> None:
        self.writer = CaptureWriter(path, {**META, **(meta or {})})
        self.frames: dict[Frame, int] = {}
        self.stacks: dict[tuple[int, int], int] = {}
        self.encoders: dict[int, RunEncoder] = {}
        self.clocks: dict[int, int] = {}
        self.has_module = False
        self.add_process(1, 1234, ["python3", "/srv/app.py"])
        self.add_thread(1, 1, 1234, "MainThread")

    def add_process(self, process: int, pid: int, command: Sequence[str], parent: int | None = None) -> None:
        self.writer.add_process(process, pid, parent, command, "CPython 3.13.0 (debug offsets)", START_NS)

    def add_thread(self, thread: int, process: int, tid: int, name: str) -> None:
        self.writer.add_thread(thread, process, tid, name, START_NS)

    def stack(self, frames: Iterable[Frame]) -> int:
        parent = 0
        for one in frames:
            if one not in self.frames:
                self.frames[one] = len(self.frames) + 1
                self._add_frame(self.frames[one], one)
            key = (parent, self.frames[one])
            if key not in self.stacks:
                self.stacks[key] = len(self.stacks) + 1
                self.writer.add_stacks([(self.stacks[key], *key)])
            parent = self.stacks[key]
        return parent

    def _add_frame(self, number: int, one: Frame) -> None:
        if one.kind is FrameKind.KERNEL:
            self.writer.add_kernel_frame(number, None)
            self.writer.add_functions(number, [one])
            return
        if one.kind is not FrameKind.NATIVE:
            self.writer.add_frame(number, one)
            return
        if not self.has_module:
            self.writer.add_module(1, "/srv/lib.so", None)
            self.has_module = True
        self.writer.add_native_frame(number, 1, 16 * number, one.flags)
        self.writer.add_functions(number, [one])

    def run(
        self,
        frames: Iterable[Frame],
        weight_ns: int = 1_000_000,
        *,
        thread: int = 1,
        state: State = State.RUNNING,
        ticks: int = 1,
        gap_ns: int = 0,
    ) -> None:
        """The thread showed this stack for weight_ns, directly (or gap_ns) after what it showed before."""
        clock = self.clocks.get(thread, START_NS) + gap_ns + weight_ns
        self.clocks[thread] = clock
        self.encoders.setdefault(thread, RunEncoder()).append(clock, weight_ns, ticks, state, self.stack(frames))

    def commit(self, written_ns: int | None = None) -> None:
        for thread, encoder in self.encoders.items():
            if len(encoder):
                self.writer.add_runs(thread, *encoder.take())
        self.writer.commit(written_ns or max(self.clocks.values(), default=START_NS))

    def close(self, ended: str = "") -> Path:
        self.commit()
        self.writer.close(ended)
        return self.writer.path


MIB = 1 << 20


def allocations(path: Path) -> Path:
    """A capture of mode alloc: 3 GiB in 3,000 calls of malloc and 1 GiB in 4 of realloc, by C that Python calls."""
    builder = CaptureBuilder(path, {"mode": "alloc", "bytes_a_sample": 512 << 10, "collector": "bpf"})
    main, parse, make = frame("main", 3), frame("parse", 9), native_frame("make_array")
    builder.run([main, parse, make, native_frame("malloc")], 3 * 1024 * MIB, ticks=3000)
    builder.run([main, make, native_frame("realloc")], 1024 * MIB, ticks=4)
    builder.writer.set_account({"allocation_calls": 3010, "allocation_bytes": 4 << 30, "samples_taken": 5000})
    builder.writer.set_losses(1, {"code-gone": (2, 3 * MIB)})
    return builder.close()


def native_frame(function: str) -> Frame:
    return Frame(FrameKind.NATIVE, function, "lib.so", 0)
