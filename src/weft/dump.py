"""The stacks of a process or a core file as they are at one moment, thread by thread.

Each stack of a live process is of one moment, which differs from thread to thread: a running thread is stopped while
its stack is read, for about 0.1 ms; one that is blocked is read as it stands, and has proven not to have
moved if it was not switched in meanwhile. What could be read only otherwise is marked as not proven.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft import _native
from weft.collect.choose import tracer_of
from weft.cpython.check import NotReadyError
from weft.cpython.codes import Code
from weft.cpython.frame_locals import LocalsReader
from weft.cpython.locate import Runtime, find_runtime, wait_for_runtime
from weft.cpython.objects import ObjectError
from weft.cpython.threads import ThreadState, gil_ranges, join, thread_names
from weft.errors import CoreFileError, LayoutError, MemoryReadError, NotPythonError, TargetExitedError
from weft.sample import Frame, State, is_body, marker, native_flags
from weft.symbolize.dumping import TargetCode, code_of
from weft.symbolize.kernel import kernel_frame
from weft.target.activity import Activity, thread_activity
from weft.target.core import Core
from weft.target.process import Process
from weft.target.syscalls import syscall_name

_STOP_TIME = 1.0  # seconds that a running thread may take to stop, if it has to wait for a CPU
_ATTEMPTS = 5  # to read a thread that moves

NO_LOSS = "none"  # the first of _native.LOSSES
_NO_REGISTERS = "no-registers"  # another: where the thread stands is not known
_BETWEEN = "between-frames"  # another: the interpreter was linking frames


@dataclass(frozen=True, slots=True)
class DumpedFrame:
    """A frame, the interpreter that runs it (0 is the main one), and its locals: name -> value; None: not read.

    Of native frames the address in their module, too (or in the process, where they are in none).
    """

    frame: Frame
    interpreter: int = 0
    locals: dict[str, str] | None = None
    address: int | None = None


@dataclass(frozen=True, slots=True)
class DumpedThread:
    """A thread. `frames` are innermost first; none: it runs no Python."""

    tid: int  # as we count it
    inner_tid: int  # as its own PID namespace does
    pthread: int  # pthread_self; 0: not known
    name: str  # as the kernel has it; "" in a core file
    python_name: str | None  # as `threading` has it
    state: State
    stopped: bool  # by a signal or a tracer
    syscall: str | None  # that it is blocked in
    holds_gil: bool
    has_python: bool  # whether an interpreter knows it
    frames: list[DumpedFrame]
    loss: str | None  # why Python frames are missing at the outer end: a name of _native.LOSSES
    native_loss: str | None  # why native ones are; None too where they were not asked for
    proven: bool  # whether the stack is of one moment


@dataclass(frozen=True, slots=True)
class Dump:
    """All threads of a process. `command` is "" where it is not known."""

    target: str
    pid: int
    command: str
    runtime: Runtime
    threads: list[DumpedThread]
    warnings: list[str] = field(default_factory=list)


def dump_process(pid: int, *, with_locals: bool = False, native: bool = True) -> Dump:
    """Read the stacks of a live process. With locals a running thread is held longer, until they are read.

    `native`: each thread's native stack, with Python's woven into it.

    NoSuchProcessError, PermissionDeniedError, NotPythonError, LayoutError, TargetExitedError.
    """
    process = Process(pid)
    runtime = wait_for_runtime(process)
    command = " ".join(process.command) or process.name
    memory = _native.ProcessMemory(pid)
    names, warnings = _names(memory, runtime)
    tids = process.namespace_ids()
    threads = []
    with code_of(process) if native else nullcontext() as code:
        reader = _Reader(memory, runtime, tids, {}, code, with_locals=with_locals)
        for thread in process.threads():
            dumped = _LiveThread(pid, thread.tid, reader).dump(thread.name, names)
            if dumped is not None:
                threads.append(dumped)
    if not threads:
        raise TargetExitedError(f"process {pid} has ended")
    if not all(thread.proven for thread in threads):
        tracer = tracer_of(pid)
        why = f"process {tracer} traces it (gdb, strace or another profiler)" if tracer else "they did not stop"
        warnings.append(f"stacks of running threads are not proven: {why}")
    if code:
        warnings += code.warnings()
    return Dump(str(process), pid, command, runtime, threads, warnings)


def dump_core(path: Path, *, root: Path | None = None, with_locals: bool = False, native: bool = True) -> Dump:
    """Read the stacks in a core file; `root`: where the files of the machine that it comes from are.

    CoreFileError, NotPythonError, LayoutError.
    """
    core = Core(path, root)
    problems = core.problems()
    try:
        runtime = find_runtime(core)
    except (LayoutError, NotPythonError, NotReadyError) as error:
        if problems:
            raise CoreFileError(f"{error}; {_most_likely(problems)}") from error
        if isinstance(error, NotReadyError):
            raise LayoutError(f"{core} has not begun to run Python: {error}") from error
        raise
    names, warnings = _names(core.memory, runtime)
    pthreads = {thread.tid: thread.pthread for thread in core.threads}
    threads = []
    with code_of(core) if native else nullcontext() as code:
        reader = _Reader(core.memory, runtime, core.namespace_ids(), pthreads, code, with_locals=with_locals)
        for thread in core.threads:
            activity = Activity(
                running=thread.syscall is None, syscall=thread.syscall, first_argument=thread.first_argument
            )
            stack = reader.stack(thread.tid, thread.registers)
            threads.append(reader.thread(thread.tid, "", names, activity, stack, proven=True))
    if code:
        warnings += code.warnings()
    return Dump(str(core), core.pid, core.arguments, runtime, threads, [*problems, *warnings])


def _most_likely(problems: list[str]) -> str:
    """Return the problem that explains best why there is no Python: a truncation, else a file that is named so."""
    return next((line for line in problems if "truncated" in line or "python" in line), problems[0])


def _names(memory: _native.Memory, runtime: Runtime) -> tuple[dict[int, str], list[str]]:
    """Return what Python calls its threads; and if that cannot be read, even at a second look, why."""
    for attempt in range(2):
        with suppress(MemoryReadError, ObjectError):
            return thread_names(memory, runtime), []
        time.sleep(0.01 * (1 - attempt))
    return {}, ["Python's names of the threads cannot be read; the kernel's are shown"]


@dataclass(frozen=True, slots=True)
class _Stack:
    """A stack as it was read, before names are made of numbers."""

    pthread: int
    parts: list[tuple[int, list[tuple[int, int, bool]], list[dict[str, str]]]]  # interpreter, frames, locals
    loss: str
    holds_gil: bool
    gils: list[range]
    woven: list[_native.WovenRow] | None  # None: native frames were not asked for
    native_loss: str
    kernel: list[Frame] = field(default_factory=list)  # where in the kernel it is, if that is known

    @property
    def frames(self) -> list[tuple[int, int, bool]]:
        """The frames of all parts."""
        return [frame for _, frames, _ in self.parts for frame in frames]


class _Reader:
    """Reads stacks out of one memory, live or not."""

    def __init__(
        self,
        memory: _native.Memory,
        runtime: Runtime,
        tids: dict[int, int],
        pthreads: dict[int, int],
        code: TargetCode | None,
        *,
        with_locals: bool,
    ) -> None:
        self._memory = memory
        self._code = code
        self._runtime = runtime
        self.tids = tids
        self._pthreads = pthreads
        roots = runtime.addresses
        self._native = _native.PythonReader(
            memory,
            runtime.layout.numbers(),
            _native.RuntimeAddresses(roots.interpreters_head, roots.current_thread, roots.gil),
        )
        self._locals = LocalsReader(memory, runtime.layout, roots) if with_locals else None
        self._codes: dict[int, Code] = {}
        self._states: dict[int, list[ThreadState]] = {}
        self.list_threads()

    def list_threads(self) -> None:
        """Look which thread states there are, and which thread each of them belongs to."""
        rows, _ = self._native.threads()
        self._states = join(self._memory, [ThreadState(*row) for row in rows], self.tids, self._pthreads)

    def stack(self, tid: int, registers: _native.RegisterSet) -> _Stack:
        """Read the stack of a thread as it is now, with these registers as far as they are known."""
        states = self._states.get(tid, [])
        read = [(state, *self._native.stack(state.address, state.interpreter, state.pthread)) for state in states]
        # Of two interpreters in one thread the inner one has its anchor lower on the C stack.
        read.sort(key=lambda part: part[3] if all(anchor for *_, anchor in read) else 0)
        losses = [loss for _, _, loss, _ in read if loss != NO_LOSS]
        woven, native_loss = None, NO_LOSS
        if self._code:
            places = [(state.address, state.interpreter, state.pthread) for state, *_ in read]
            woven, native_loss, lacks_python = self._native.weave(places, self._code.map, registers)
            if lacks_python:
                losses.append(_BETWEEN)
            # A thread that moves may have another stack by now: then its Python frames are told alone.
            if sum(row[0] == _native.WOVEN_PYTHON for row in woven) != sum(len(frames) for _, frames, *_ in read):
                woven, native_loss = None, _NO_REGISTERS
        holders = self._native.gil_holders() if states and not self._runtime.layout.free_threaded else []
        return _Stack(
            pthread=states[0].pthread if states else self._pthreads.get(tid, 0),
            parts=[
                (state.interpreter_id, frames, self._locals.read(state.address) if self._locals else [])
                for state, frames, _, _ in read
            ],
            loss=losses[0] if losses else NO_LOSS,
            holds_gil=any(state.address in holders for state in states),
            gils=self._gils(states),
            woven=woven,
            native_loss=native_loss,
        )

    def _gils(self, states: list[ThreadState]) -> list[range]:
        with suppress(MemoryReadError):
            interpreters = {state.interpreter for state in states}
            return gil_ranges(self._memory, self._runtime.layout, self._runtime.addresses, interpreters)
        return []

    def thread(
        self, tid: int, name: str, names: dict[int, str], activity: Activity, stack: _Stack, *, proven: bool
    ) -> DumpedThread:
        """Put together what was read of a thread; names and lines are looked up now."""
        for code_id, first_line, filename, code_name, qualname, line_table in self._native.codes():
            self._codes[code_id] = Code(self._runtime.version, first_line, filename, code_name, qualname, line_table)
        state = State.RUNNING if activity.running else State.BLOCKED
        if activity.waits_on(stack.gils) and not stack.holds_gil:
            state = State.GIL
        return DumpedThread(
            tid=tid,
            inner_tid=self.tids.get(tid, tid),
            pthread=stack.pthread,
            name=name,
            python_name=names.get(stack.pthread),
            state=state,
            stopped=activity.stopped,
            syscall=syscall_name(activity.syscall) if activity.syscall is not None else None,
            holds_gil=stack.holds_gil,
            has_python=bool(stack.parts),
            frames=list(self._frames(stack)),
            loss=None if stack.loss == NO_LOSS else stack.loss,
            native_loss=None if stack.native_loss == NO_LOSS else stack.native_loss,
            proven=proven,
        )

    def _frames(self, stack: _Stack) -> Iterator[DumpedFrame]:
        python = [
            DumpedFrame(
                self._codes[code].frame(instruction, incomplete=incomplete),
                interpreter,
                variables[index] if index < len(variables) else None,
            )
            for interpreter, frames, variables in stack.parts
            for index, (code, instruction, incomplete) in enumerate(frames)
        ]
        if stack.woven is None or self._code is None:
            yield from python
            return
        yield from map(DumpedFrame, stack.kernel)
        last: DumpedFrame | None = None
        for dumped in self._woven(python, stack.woven, self._code):
            if last is None or not is_body(last.frame, dumped.frame):  # else it is shown in its wrapper's place
                yield dumped
            last = dumped

    def _woven(
        self, python: list[DumpedFrame], woven: list[_native.WovenRow], code: TargetCode
    ) -> Iterator[DumpedFrame]:
        for kind, *row in woven:
            match kind, row:
                case _native.WOVEN_PYTHON, [index]:
                    yield python[index]
                case _native.WOVEN_NATIVE, [module, address, proof, by_frame_pointer]:
                    inner, *outer = code.functions(module, address)
                    flags = native_flags(proof, by_frame_pointer=by_frame_pointer)
                    seam = inner._replace(flags=inner.flags | flags)
                    yield from (DumpedFrame(frame, address=address) for frame in (seam, *outer))
                case _, [loss]:
                    yield DumpedFrame(marker(loss, native=True))


class _LiveThread:
    """One thread of a live process."""

    def __init__(self, pid: int, tid: int, reader: _Reader) -> None:
        self._pid = pid
        self._tid = tid
        self._reader = reader

    def dump(self, name: str, names: dict[int, str]) -> DumpedThread | None:
        """Read it, the least intrusive way that proves its stack; None: it has gone."""
        activity = thread_activity(self._pid, self._tid)
        standing: DumpedThread | None = None
        kernel: list[Frame] = []
        for _ in range(_ATTEMPTS):
            if activity is None or activity.running:
                break
            kernel = [kernel_frame(function) for function in _native.kernel_stack(self._pid, self._tid) or ()]
            stack = replace(self._read(_blocked_registers(activity)), kernel=kernel)
            before, activity = activity, thread_activity(self._pid, self._tid)
            if activity is not None and before.is_followed_by(activity):
                standing = self._reader.thread(self._tid, name, names, before, stack, proven=True)
                break
        if standing is not None and standing.native_loss is None:
            return standing
        if activity is None:
            return None
        # It runs; or some of its native frames need registers that only a stopped thread shows.
        with _stopped(self._tid) as thread:
            if thread.result is _native.StopResult.GONE:
                return None
            proven = thread.result is _native.StopResult.STOPPED
            if standing is not None and not proven:
                return standing
            stack = self._read(thread.registers) if proven else self._read_moving()
            if standing is not None and self._has_stood_until(thread.registers, activity):
                stack = replace(stack, kernel=kernel)  # which it has left for the stop, and goes back to
        return self._reader.thread(self._tid, name, names, activity, stack, proven=proven)

    def _has_stood_until(self, registers: _native.RegisterSet, activity: Activity) -> bool:
        """Whether a thread that was blocked, and is stopped now, was switched in for that stop alone, and is where it
        had entered the kernel."""
        now = thread_activity(self._pid, self._tid)
        if now is None or now.switches is None or activity.switches is None:
            return False
        known = _blocked_registers(activity)
        at_its_place = all(known[number] == registers[number] for number in (_native.STACK_POINTER, _native.PC))
        return at_its_place and now.switches == activity.switches + 1

    def _read(self, registers: _native.RegisterSet) -> _Stack:
        stack = self._reader.stack(self._tid, registers)
        if stack.loss == "no-thread-state":  # freed since the states were listed, or its memory used anew
            self._reader.list_threads()
            stack = self._reader.stack(self._tid, registers)
        return stack

    def _read_moving(self) -> _Stack:
        """Read a thread that may move until two readings agree; the last one if none do."""
        unknown = _native.RegisterSet()
        last = self._read(unknown)
        for _ in range(_ATTEMPTS):
            stack, last = last, self._read(unknown)
            if stack.frames == last.frames and stack.loss == last.loss:
                break
        return last


def _blocked_registers(activity: Activity) -> _native.RegisterSet:
    """Return what the kernel tells of a blocked thread's registers."""
    registers = _native.RegisterSet()
    if activity.pc:
        registers[_native.STACK_POINTER] = activity.stack_pointer
        registers[_native.PC] = activity.pc
    return registers


@contextmanager
def _stopped(tid: int) -> Iterator[_native.StoppedThread]:
    """Hold a thread still while the block runs, if that can be."""
    held = _native.StoppedThread(tid, _STOP_TIME)
    try:
        yield held
    finally:
        held.release()
