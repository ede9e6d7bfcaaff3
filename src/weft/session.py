"""The main path: target -> collector -> capture."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import NamedTuple

from weft import __version__, _native
from weft.capabilities import SYS_ADMIN, drop_capabilities
from weft.capture import CaptureWriter
from weft.collect.allocations import AllocationFollower
from weft.collect.bpf.kernel import are_probes_linked
from weft.collect.choose import (
    Collector,
    check_ptrace,
    collectors_for_allocations,
    collectors_for_command,
    collectors_for_machine,
    collectors_for_process,
)
from weft.collect.code import CodeFollower
from weft.collect.filter import Filter
from weft.collect.finder import Finder
from weft.collect.recorder import Recorder
from weft.collect.sampler import BYTES_A_SAMPLE, EventKind, Mode, Sampler, events_of, pacer_of
from weft.collect.sources import SourceBook
from weft.cpython.locate import Runtime, wait_for_runtime
from weft.errors import CollectorError, NotPythonError, OutputError, TargetError, TargetExitedError, WeftError
from weft.limits import many_files
from weft.target.code import CodeBook
from weft.target.launch import Launched
from weft.target.process import Process

_BATCH_WAIT = 1.0  # seconds; a signal ends it
_WATCH_WAIT = 0.25  # the same, where somebody wants to know how it stands
_SEARCH_WAIT = 0.005  # while a process may become a Python program
_MAPPINGS_PERIOD = 1.0  # seconds between looks for newly mapped libraries
_TABLES_TIME = 0.1  # seconds of CPU time for unwind tables before the first sample; those of large libraries come later
_MAX_BATCHES_BEHIND = 8  # batches written in one go before anything else is looked at


class Options(NamedTuple):
    """How to record."""

    rate_hz: int = 99
    duration_s: float | None = None  # None: until the target ends, or Ctrl-C
    mode: Mode = Mode.WALL
    collector: Collector = Collector.AUTO
    subprocesses: bool = False
    native: bool = True
    machine: Filter | None = None  # all processes of the machine that it lets through
    give_up_privileges: bool = False  # for good: what weft does not need, once it records by collector bpf


class Progress(NamedTuple):
    """How a recording stands."""

    elapsed_s: float
    account: dict[str, int]
    losses: dict[str, int]
    runtimes: int  # Python processes found so far
    symbols: tuple[int, int] | None = None  # modules whose symbols have been read, of how many; once it has ended


@dataclass(frozen=True, slots=True)
class Result:
    """How a recording went. `exit_status` is that of a launched command, as of wait(2).

    `warnings`: a line for each module that could not be read as it should; with names of files that are not escaped.
    """

    capture: Path
    account: dict[str, int]
    runtimes: list[Runtime]
    failures: dict[int, WeftError]
    warnings: list[str]
    exit_status: int | None = None

    def told_failures(self) -> list[str]:
        """A line for each process whose Python cannot be read."""
        return [
            str(error) if isinstance(error, TargetError) else f"process {pid}: {error}"
            for pid, error in self.failures.items()
        ]


Watch = Callable[[Progress], None]


def record_process(pid: int, path: Path, options: Options, watch: Watch | None = None) -> Result:
    """Record a running process into a capture at `path`, until it ends, the time is up, or SIGINT or SIGTERM comes.

    TargetError and those below it, LayoutError, CollectorError, OutputError.
    """
    if pid == os.getpid():
        raise TargetError("weft cannot record itself; record it from another process")
    process = Process(pid)
    collectors = _collectors(options, collectors_for_process)
    _give_up_privileges(collectors, options)
    book = CodeBook()
    with _process_settings(), _Interrupts() as interrupts:
        # Side by side: the search waits for files, the collector for the kernel.
        program = process.program
        with ThreadPoolExecutor(max_workers=1) as pool:
            search = pool.submit(_look_at, process, book, options)
            chosen = _first_that_can(collectors, options, pid)
        try:
            runtime, code = search.result()
        except BaseException:
            chosen.sampler.stop()
            raise
        with _Recording(path, options, chosen, watch, book) as recording:
            if process.program != program:
                runtime = code = None  # of what it was before its exec
            if runtime:
                recording.recorder.expect(pid, runtime)
            recording.allocations.begin(pid)
            recording.sampler.attach(pid, runtime=runtime, code=code)
            recording.run(interrupts)
    return recording.result()


def record_command(command: Sequence[str], path: Path, options: Options, watch: Watch | None = None) -> Result:
    """Launch a command and record it into a capture at `path`, from its first instruction to its end.

    If the time is up before that, the command runs on to its end. LaunchError, CollectorError, OutputError.
    """
    launched = Launched(command)
    collectors = _collectors(options, collectors_for_command)
    _give_up_privileges(collectors, options)
    with _process_settings(), _Interrupts(forward_to=launched.pid) as interrupts:
        with _Recording(path, options, _first_that_can(collectors, options), watch) as recording:
            if recording.collector is not Collector.PTRACE:
                recording.allocations.begin(launched.pid)
                launched.release()
                recording.sampler.attach(launched.pid)
            else:
                recording.sampler.attach(launched.pid, launching=True)
                launched.release()
            try:
                recording.run(interrupts)
                recording.close()
            except OutputError:
                recording.sampler.stop()
                with suppress(TargetExitedError):  # the sampler has seen its end
                    launched.wait()  # it runs on to its end here, too
                raise
        status = recording.recorder.exit_statuses.get(launched.pid)
        if status is None:
            status = launched.wait()
    return recording.result(status)


def record_machine(path: Path, options: Options, watch: Watch | None = None) -> Result:
    """Record all processes that options.machine lets through, until the time is up, or SIGINT or SIGTERM comes.

    In mode cpu or wall: ValueError for another one. CollectorError, OutputError.
    """
    if options.machine is None or options.mode not in (Mode.CPU, Mode.WALL):
        raise ValueError("a recording of the machine is of Mode.CPU or Mode.WALL, and needs a machine=Filter()")
    collectors = collectors_for_machine(options.collector)
    _give_up_privileges(collectors, options)
    with (
        _process_settings(),
        _Interrupts() as interrupts,
        _Recording(path, options, _first_that_can(collectors, options), watch) as recording,
    ):
        recording.run(interrupts)
    return recording.result()


def _collectors(options: Options, others: Callable[[Collector], list[Collector]]) -> list[Collector]:
    return (collectors_for_allocations if options.mode is Mode.ALLOC else others)(options.collector)


def _give_up_privileges(collectors: Sequence[Collector], options: Options) -> None:
    """What collector bpf does not need, if it is to be tried; before threads of ours begin, which would keep it."""
    if options.give_up_privileges and collectors[0] is Collector.BPF:
        linked = options.mode is Mode.ALLOC and are_probes_linked(follow_processes=options.subprocesses)
        drop_capabilities(*([] if options.mode is Mode.CPU or linked else [SYS_ADMIN]))


def _look_at(process: Process, book: CodeBook, options: Options) -> tuple[Runtime | None, _native.CodeMap | None]:
    """Return the Python of a process, None if only its subprocesses may have one; and where its code lies."""
    runtime = None
    try:
        runtime = wait_for_runtime(process)
    except NotPythonError:
        if not options.subprocesses:
            raise
    return runtime, book.map_of(process, within_s=_TABLES_TIME) if options.native else None


@contextmanager
def _process_settings() -> Iterator[None]:
    """Set this process up for the sampler, and set it back, but for when it gives memory back."""
    # SIGCHLD tells the sampler's thread of stops; taken by any other thread it would only be passed on.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    _native.give_large_blocks_back()
    try:
        with many_files():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _Recording:
    """A recording under way. Whatever ends it, what was recorded is written."""

    def __init__(
        self,
        path: Path,
        options: Options,
        chosen: _Chosen,
        watch: Watch | None,
        book: CodeBook | None = None,
    ) -> None:
        """Make everything ready. `book`: of the code that is known already."""
        self._path = path
        self._options = options
        self._watch = watch
        self.collector, self.sampler = chosen.collector, chosen.sampler
        self._start = time.monotonic()  # of what is recorded, once run() has begun
        # Processes that have mapped code since they were looked at; None: nobody tells, and all are looked at.
        self._mapped: set[int] | None = set() if self.collector is Collector.BPF else None
        try:
            self._capture = CaptureWriter(path, _meta(options, chosen))
        except OutputError:
            self.sampler.stop()
            raise
        self.book = book or CodeBook()
        self._sources = SourceBook(time.time_ns())
        self.recorder = Recorder(self._capture, self.book, self._sources)
        self.finder = Finder(self.sampler, self.recorder, told_of_code=self._mapped is not None)
        self._code = CodeFollower(self.sampler, self.book)
        self.allocations = AllocationFollower(self.sampler.probes)
        self._next_mappings = 0.0
        self._finished = False
        self._warnings: list[str] = []

    def __enter__(self) -> _Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sampler.stop()
        if error is None:
            self.close()
        else:
            self._code.close()
            self._sources.close()
            self._capture.__exit__(kind, error, trace)

    def run(self, interrupts: _Interrupts) -> None:
        """Write batches until there will be no more of them, the time is up, or an interrupt asks for the end."""
        # Not from when weft was started: on a busy machine it takes a second until the kernel has its programs.
        self._start = time.monotonic()
        duration = self._options.duration_s
        while not self._finished and not interrupts.asked:
            left = duration - self.elapsed_s if duration is not None else _BATCH_WAIT
            if left <= 0:
                return
            self._take(min(left, self._pause_s()))
            self.allocations.look()  # first: what is asked for meanwhile is not seen
            self.finder.look()
            self.recorder.look_at_names()
            self._look_at_mappings()
            self._tell()

    def _pause_s(self) -> float:
        """For how long there is nothing to do but to wait for a batch."""
        if self.finder.is_searching:
            return _SEARCH_WAIT
        wait = _WATCH_WAIT if self._watch else _BATCH_WAIT
        if self._mapped is None or self._mapped:
            wait = min(wait, max(0.0, self._next_mappings - time.monotonic()))
        return wait

    def close(self) -> None:
        """Stop sampling, and write what is left."""
        self.sampler.stop()
        while not self._finished:
            self._take(_BATCH_WAIT)
        self._code.close()
        if self._capture.is_open:
            elapsed_s = self.elapsed_s
            self._symbolize()
            usage = resource.getrusage(resource.RUSAGE_SELF)
            dropped = self.sampler.dropped
            self._capture.set_account(
                {
                    "profiler_cpu_ns": int((usage.ru_utime + usage.ru_stime) * 1e9),
                    "recorded_ns": int(elapsed_s * 1e9),
                    "sources_left_out": self._sources.left_out,
                    "samples_dropped": self.recorder.account.get("samples_dropped", 0) + sum(dropped.values()),
                    **self.sampler.allocations,
                    **self.allocations.account,
                    **{f"samples_dropped_cpu{cpu}": lost for cpu, lost in dropped.items()},
                }
            )
            self._capture.set_meta("pacer", pacer_of(self.collector, self._options.mode, self.recorder.account))
            self._capture.close()
        self._sources.close()
        self._code.check()

    def _symbolize(self) -> None:
        if self.recorder.native_frames or self.recorder.kernel_frames:
            self._name_functions()
        for source in self._sources.read():
            self._capture.add_source(source.file, source.text, source.problem)
        self._warnings += self.allocations.warnings
        self.book.close()

    def _name_functions(self) -> None:
        from weft.symbolize.recording import Symbolizer, symbolize_kernel  # the first sample does not wait for it

        symbolizer = Symbolizer(self.book)
        for frame_id, functions in symbolizer.run(self.recorder.native_frames, lambda *symbols: self._tell(symbols)):
            self._capture.add_functions(frame_id, functions)
            for function in functions:
                if function.line:
                    self._sources.name(function.file, None)
        for frame_id, functions in symbolize_kernel(self.recorder.kernel_frames):
            self._capture.add_functions(frame_id, functions)
        self._warnings += symbolizer.warnings

    def _tell(self, symbols: tuple[int, int] | None = None) -> None:
        """Tell how it stands."""
        if self._watch:
            recorder = self.recorder
            self._watch(Progress(self.elapsed_s, recorder.account, recorder.losses, len(self.finder.found), symbols))

    def result(self, exit_status: int | None = None) -> Result:
        """Return how it went."""
        return Result(
            self._path, self.recorder.account, self.finder.found, self.finder.failures, self._warnings, exit_status
        )

    @property
    def elapsed_s(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._start

    def _take(self, timeout_s: float) -> None:
        for _ in range(_MAX_BATCHES_BEHIND):
            batch = self.sampler.next_batch(timeout_s)
            if batch is None:
                return
            events = list(events_of(batch))
            self.recorder.write(batch, events)
            for event in events:
                self.finder.see(event)
                self._code.see(event)
                self.allocations.see(event)
                if self._mapped is not None and event.kind in (EventKind.PROCESS_START, EventKind.CODE_MAPPED):
                    self._mapped.add(event.process)
            self._finished = batch.finished
            if batch.finished:
                return
            timeout_s = 0.0

    def _look_at_mappings(self) -> None:
        now = time.monotonic()
        if now >= self._next_mappings:
            self._next_mappings = now + _MAPPINGS_PERIOD
            self.recorder.look_at_mappings(time.monotonic_ns(), self._mapped)
            if self._options.native:
                self._code.look(self._mapped)
            if self._mapped is not None:
                self._mapped.clear()


class _Interrupts:
    """SIGINT and SIGTERM end a recording in order. A launched command gets Ctrl-C itself, and SIGTERM from us."""

    def __init__(self, forward_to: int | None = None) -> None:
        self.asked = False
        self._forward_to = forward_to
        self._previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> _Interrupts:
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._forward_to is None:
            self.asked = True
        elif number == signal.SIGTERM:
            with suppress(ProcessLookupError):
                os.kill(self._forward_to, number)


class _Chosen(NamedTuple):
    """A collector that can run."""

    collector: Collector
    sampler: Sampler
    why: str  # it is not the one that weft would rather have taken; "": it is


def _first_that_can(collectors: Sequence[Collector], options: Options, pid: int | None = None) -> _Chosen:
    """Return the first collector that can run: for the process, if there is one. CollectorError."""
    why = []
    for collector in collectors[:-1]:
        try:
            return _Chosen(collector, _sampler(collector, options, pid), "")
        except CollectorError as error:
            why.append(error.problem)
    return _Chosen(collectors[-1], _sampler(collectors[-1], options, pid), "; ".join(why))


def _sampler(collector: Collector, options: Options, pid: int | None) -> Sampler:
    if collector is Collector.PTRACE and pid is not None:
        check_ptrace(pid)
    sampler = Sampler(
        collector,
        options.rate_hz,
        options.mode,
        subprocesses=options.subprocesses,
        native=options.native,
        machine=options.machine,
    )
    gives_up = options.give_up_privileges and collector is Collector.BPF
    if gives_up and options.mode is not Mode.ALLOC:  # whose probes, also those of processes to come, need it
        drop_capabilities()  # the sampler's thread, which has begun, gives the last one up after its first looks
    return sampler


def _meta(options: Options, chosen: _Chosen) -> dict[str, str | int]:
    name = os.uname()
    return {
        "version": __version__,
        "command": " ".join(sys.argv),
        "host": name.nodename,
        "kernel": name.release,
        "collector": chosen.collector.value,
        "collector_reason": chosen.why,
        "mode": options.mode.name.lower(),
        **({"bytes_a_sample": BYTES_A_SAMPLE} if options.mode is Mode.ALLOC else {"rate_hz": options.rate_hz}),
        "start_ns": time.monotonic_ns(),
        "start_unix_ns": time.time_ns(),
    }
