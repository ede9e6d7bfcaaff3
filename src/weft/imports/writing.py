"""Writes what was read of another tool's profile as a capture."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from weft import __version__
from weft._native import RunEncoder
from weft.capture import CaptureWriter
from weft.errors import ImportedFileError
from weft.profile.names import escape
from weft.sample import KERNEL, Frame, FrameKind, State

MOST_NS: Final = 1 << 62  # 146 years
MOST_STACKS: Final = 10_000_000
NOMINAL_HZ: Final = 100  # of files that have counts only: what most samplers take
SECOND: Final = 1_000_000_000
_BATCH: Final = 100_000  # runs


class ImportWriter:
    """One capture of another tool's profile. A reader adds threads, stacks and what each thread showed, in order.

    Raises ImportedFileError where the numbers cannot be.
    """

    def __init__(self, path: Path, source: Path, form: str) -> None:
        self._writer = CaptureWriter(path, {"version": __version__, "start_ns": 0, "collector": "another profiler"})
        self._writer.set_meta("imported", form)
        self._source = source
        self._encoders: dict[int, RunEncoder] = {}
        self._clocks: dict[int, int] = {}
        self._processes: dict[tuple[int, str], int] = {}
        self._threads: dict[tuple[int, int, str], int] = {}
        self._frames: dict[Frame, int] = {}
        self._modules: dict[str, int] = {}
        self._stacks: dict[tuple[int, int], int] = {}
        self._ticks = 0
        self._weight_ns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for thread in self._encoders:
                self._flush(thread)
            self._writer.set_account({"samples_taken": self._ticks})
            self._writer.commit(max(self._clocks.values(), default=0))
        self._writer.__exit__(kind, error, trace)

    def describe(
        self, *, rate_hz: int | None, timed: bool, made_up: bool = False, mode: str = "wall", start: int = 0
    ) -> None:
        """What is known of the recording: samples a second (None: that is not told), whether it is known when they were
        taken, whether their time is made up from their number, when it began in ns since 1970.
        """
        warnings = ["imported from another profiler: what its samples lack is not known"]
        if made_up:
            warnings.append(f"the file counts samples and tells no time: each is shown as {1000 // NOMINAL_HZ} ms")
        if not timed:
            warnings.append("the file does not tell when samples were taken: formats with a time line make one up")
        facts: dict[str, str | int] = {
            "rate_hz": rate_hz or NOMINAL_HZ,
            "rate_told": int(rate_hz is not None),
            "timed": int(timed),
            "mode": mode,
            "start_unix_ns": start,
        }
        for key, value in {**facts, "import_warnings": "\n".join(warnings)}.items():
            self._writer.set_meta(key, value)

    def thread(self, name: str, tid: int = 0, pid: int = 0, process: str = "") -> int:
        """The id of a thread; made if it is not there."""
        home = pid, process
        if home not in self._processes:
            self._processes[home] = len(self._processes) + 1
            command = [process or self._source.name]
            self._writer.add_process(self._processes[home], pid, None, command, None, 0)
        key = self._processes[home], tid, name
        if key not in self._threads:
            self._threads[key] = len(self._threads) + 1
            self._writer.add_thread(self._threads[key], self._processes[home], tid, name, 0)
        return self._threads[key]

    def stack(self, parent: int, frame: Frame) -> int:
        """The stack of a frame called by a stack, 0 of an outermost one."""
        number = self._frames.get(frame)
        if number is None:
            number = self._frames[frame] = len(self._frames) + 1
            self._add_frame(number, frame)
        key = parent, number
        if key not in self._stacks:
            if len(self._stacks) >= MOST_STACKS:
                raise ImportedFileError(f"it has more than {MOST_STACKS:,} different stacks")
            self._stacks[key] = len(self._stacks) + 1
            self._writer.add_stacks([(self._stacks[key], *key)])
        return self._stacks[key]

    def run(self, thread: int, stack: int, weight_ns: int, ticks: int = 1, state: State = State.RUNNING) -> None:
        """The thread showed this stack for so long, after what it showed before."""
        self._weight_ns += weight_ns
        self._ticks += ticks
        if not (weight_ns >= 0 and ticks >= 0 and max(self._weight_ns, self._ticks) < MOST_NS):
            raise ImportedFileError("its samples weigh less than nothing, or more than centuries")
        self.skip(thread, weight_ns)
        encoder = self._encoders.setdefault(thread, RunEncoder())
        encoder.append(self._clocks[thread], weight_ns, ticks, state, stack)
        if len(encoder) >= _BATCH:
            self._flush(thread)

    def skip(self, thread: int, time_ns: int) -> None:
        """Nothing is known of the thread for so long."""
        self._clocks[thread] = self._clocks.get(thread, 0) + time_ns
        if not (time_ns >= 0 and self._clocks[thread] < MOST_NS):
            raise ImportedFileError("its times run backwards, or last for centuries")

    def _flush(self, thread: int) -> None:
        if len(self._encoders[thread]):
            self._writer.add_runs(thread, *self._encoders[thread].take())
            self._writer.commit(self._clocks[thread])

    def _add_frame(self, number: int, frame: Frame) -> None:
        if frame.kind in (FrameKind.PYTHON, FrameKind.MARKER):
            self._writer.add_frame(number, frame)
            return
        if frame.kind is FrameKind.KERNEL:
            self._writer.add_kernel_frame(number, None)
        else:
            self._writer.add_native_frame(number, self._module(frame), number, frame.flags)
        self._writer.add_functions(number, [frame])

    def _module(self, frame: Frame) -> int | None:
        """What a capture tells as the file of native code without a line."""
        if frame.line or not frame.file:
            return None
        if frame.file not in self._modules:
            self._modules[frame.file] = len(self._modules) + 1
            self._writer.add_module(self._modules[frame.file], frame.file, None)
        return self._modules[frame.file]


def frame_of(function: str, file: str, line: int, first_line: int = 0) -> Frame:
    """A frame by what its file is: other tools do not say what kind of code it runs."""
    if not (0 <= line < 1 << 31 and 0 <= first_line < 1 << 31):
        raise ImportedFileError(f"line {line} of {escape(function[:100])!r} cannot be")
    if file == KERNEL:
        return Frame(FrameKind.KERNEL, function, KERNEL, 0, module=KERNEL)
    if file.endswith(".pyx"):
        return Frame(FrameKind.CYTHON, function, file, line)
    if file.endswith((".py", ".ipynb")) or file.startswith("<"):
        return Frame(FrameKind.PYTHON, function, file, line, first_line)
    if not file and function.startswith("[") and function.endswith("]"):
        return Frame(FrameKind.MARKER, function, "", 0)
    return Frame(FrameKind.NATIVE, function, file, line if file else 0)
