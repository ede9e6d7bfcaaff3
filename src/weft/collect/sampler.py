"""The native sampler, as Python sees it: typed events, and the pacer in words."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from weft import _native
from weft.collect.choose import Collector, check_bpf
from weft.collect.filter import Filter
from weft.cpython.locate import Runtime
from weft.errors import CollectorError, PermissionDeniedError, TargetExitedError
from weft.target.process import Process

if TYPE_CHECKING:
    from weft.collect.bpf.allocator import AllocatorProbes
    from weft.collect.bpf.collector import KernelCollector

BYTES_A_SAMPLE = _native.BPF_BYTES_A_SAMPLE  # mode alloc: on average, by chance


class Mode(IntEnum):
    """What is sampled."""

    WALL = 0  # every thread, with its state
    CPU = 1  # threads that use CPU time
    GIL = 2  # the thread that holds the GIL
    ALLOC = 3  # threads that ask libc for memory: weights are bytes


class EventKind(IntEnum):
    """Event::Kind of native/sampler/batch.h."""

    PROCESS_START = 0
    PYTHON_INHERITED = 1
    PROCESS_END = 2
    THREAD_START = 3
    THREAD_END = 4
    THREAD_NAME = 5
    CODES_FORGOTTEN = 6
    CODE_UNKNOWN = 7
    CODE_MAPPED = 8


class Event(NamedTuple):
    """Something that happened to a process or a thread. Times in ns of CLOCK_MONOTONIC; ids are the sampler's own."""

    kind: EventKind
    at_ns: int
    process: int
    thread: int
    parent: int
    id: int  # pid or tid
    value: int
    name: bytes


def events_of(batch: _native.Batch) -> Iterator[Event]:
    """The events of a batch, in order."""
    for kind, at_ns, process, thread, parent, id_, value, name in batch.events:
        yield Event(EventKind(kind), at_ns, process, thread, parent, id_, value, name)


class Sampler:
    """Takes samples on a thread of its own, from attach() to stop(). One at a time in a process."""

    def __init__(
        self,
        collector: Collector,
        rate_hz: int,
        mode: Mode,
        *,
        subprocesses: bool,
        native: bool,
        machine: Filter | None = None,
    ) -> None:
        """Make it ready. CollectorError.

        machine: all processes that it lets through are sampled from now on; nobody has to attach() to them.
        """
        if collector is Collector.BPF:
            check_bpf()
            if mode is Mode.GIL:
                raise CollectorError("collector bpf does not follow the GIL", "for --mode gil use --collector ptrace")
        # Samples for which the kernel found no room, by their CPU; known when stop() returns.
        self.dropped: dict[int, int] = {}
        self._lock = threading.Lock()  # maps of code are told by several threads
        # Of mode alloc, all that was asked for, sampled or not; known then, too.
        self.allocations: dict[str, int] = {}
        self._kernel: KernelCollector | None = None
        if collector is Collector.BPF:
            from weft.collect.bpf.collector import KernelCollector  # the others do not wait for it

            self._kernel = KernelCollector(
                rate_hz,
                native=native,
                switches=mode is Mode.WALL,
                allocations=mode is Mode.ALLOC,
                follow_processes=subprocesses or machine is not None,
            )
        try:
            self._native = _native.Sampler(
                rate_hz,
                _native.Mode(mode.value),
                collector is Collector.PTRACE,
                follow_processes=subprocesses,
                native=native,
                kernel=self._kernel.maps if self._kernel else None,
                machine=machine.native() if machine else None,
            )
        except RuntimeError as error:  # of the kernel's: no files left, no memory that may be locked
            raise CollectorError(f"the sampler cannot begin: {error}") from error
        if self._kernel:
            try:
                self._kernel.start()
            except CollectorError:
                self.stop()
                raise

    def attach(
        self, pid: int, *, launching: bool = False, runtime: Runtime | None = None, code: _native.CodeMap | None = None
    ) -> None:
        """Sample a process from now on. PermissionDeniedError, TargetExitedError.

        launching: it is our child and waits before its exec; what it becomes is followed from its first instruction.
        runtime: where its Python is, if that is known already; code: what is known of its code.
        """
        place = _place(runtime) if runtime else None
        self._load_tables(0, code)
        result = self._native.attach(pid, launching, place, code or _native.CodeMap())
        # The kernel refuses a thread that has ended, too.
        if result is _native.AttachResult.DENIED and Process(pid).is_alive:
            raise PermissionDeniedError(
                f"the kernel does not let weft stop process {pid}; see what `weft doctor {pid}` says"
            )
        if result is not _native.AttachResult.OK:
            raise TargetExitedError(f"process {pid} has ended")

    def set_runtime(self, process: int, runtime: Runtime | None) -> None:
        """Tell where a process's Python is, or that it has none."""
        if runtime is None:
            self._native.set_no_python(process)
            return
        self._native.set_python(process, _place(runtime))

    def set_code(self, process: int, code: _native.CodeMap) -> None:
        """Tell where the code of a process lies now."""
        self._load_tables(process, code)
        self._native.set_code(process, code)

    def forget_code(self, process: int) -> None:
        """Tell that a process has ended, and nothing of its code is needed for it."""
        with self._lock:
            if self._kernel:
                self._kernel.tables.forget(process)

    def _load_tables(self, process: int, code: _native.CodeMap | None) -> None:
        with self._lock:
            if self._kernel and code:
                self._kernel.tables.load(process, code.tables)

    @property
    def probes(self) -> AllocatorProbes | None:
        """Where processes ask for memory, in mode alloc, until stop()."""
        return self._kernel.probes if self._kernel else None

    def next_batch(self, timeout_s: float) -> _native.Batch | None:
        """Return what has happened since the last batch, None if there is nothing in time, or a signal comes."""
        return self._native.next_batch(timeout_s)

    def stop(self) -> None:
        """End the sampling and let go of every target. What is left comes as a last batch."""
        self._native.stop()
        with self._lock:
            if self._kernel:
                self._kernel.stop()
                self.dropped = self._kernel.lost
                if self._kernel.probes:
                    self.allocations = self._kernel.allocations
                self._kernel.close()
                self._kernel = None


def _place(runtime: Runtime) -> _native.PythonPlace:
    roots = runtime.addresses
    addresses = _native.RuntimeAddresses(roots.interpreters_head, roots.current_thread, roots.gil, roots.current_state)
    return _native.PythonPlace(runtime.layout.numbers(), addresses)


def pacer_of(collector: Collector, mode: Mode, account: dict[str, int]) -> str:
    """Return in words what paced the samples."""
    if mode is Mode.ALLOC:
        return f"bytes asked for: one sample in {BYTES_A_SAMPLE >> 10} KiB, on average, by chance"
    if collector is Collector.BPF:
        return "clocks of the CPUs"
    if not account["cpu_clocks"]:
        return "wall clock"
    return "CPU clocks of the threads" if not account["cpu_clocks_refused"] else "CPU clocks, some by the wall clock"
