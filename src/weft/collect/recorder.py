"""The recorder: writes what the sampler has seen into the capture, batch by batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from weft import _native
from weft.capture import CaptureWriter
from weft.collect.names import ThreadNames
from weft.collect.sampler import Event, EventKind
from weft.collect.sources import SourceBook
from weft.cpython.codes import Code
from weft.cpython.locate import Runtime
from weft.errors import MemoryReadError, TargetError
from weft.sample import Frame, marker, native_flags
from weft.symbolize.kernel import kernel_frame
from weft.target.code import CodeBook
from weft.target.elf import ElfError
from weft.target.image import Image
from weft.target.maps import modules
from weft.target.process import Process


@dataclass(slots=True)
class _Recorded:
    """What the recorder remembers of one process."""

    pid: int
    runtime: Runtime | None = None
    codes: dict[int, Code] = field(default_factory=dict)
    losses: dict[str, tuple[int, int]] = field(default_factory=dict)
    maps_mark: int | None = None  # of when all that was mapped was written
    modules: set[tuple[str, int]] = field(default_factory=set)
    names: ThreadNames = field(default_factory=ThreadNames)


class Recorder:
    """Turns batches into rows: numbers into names, instructions into lines. For use from one thread."""

    def __init__(self, capture: CaptureWriter, book: CodeBook, sources: SourceBook) -> None:
        self._capture = capture
        self._sources = sources
        self._book = book
        self._modules: set[int] = set()  # that the capture has
        self.native_frames: dict[int, tuple[int, int]] = {}  # id -> (module, address in it)
        self.kernel_frames: dict[int, int] = {}  # id -> address
        self._kernel_names: list[str] = []
        self._processes: dict[int, _Recorded] = {}
        self._expected: dict[int, Runtime] = {}
        self.account: dict[str, int] = {}
        self.losses: dict[str, int] = {}  # samples and stacks, of all processes
        self.exit_statuses: dict[int, int] = {}  # pid -> status as of wait(2), of processes whose end was seen

    def expect(self, pid: int, runtime: Runtime) -> None:
        """Note what was found in a process that is still to be attached to."""
        self._expected[pid] = runtime

    def runtime_of(self, process: int) -> Runtime | None:
        """Return the Python of a process, as far as it is known."""
        recorded = self._processes.get(process)
        return recorded.runtime if recorded else None

    def set_runtime(self, process: int, runtime: Runtime | None) -> None:
        """Note what was found in a process. Batches that come later may hold its code objects."""
        recorded = self._processes.get(process)
        if recorded is not None:
            recorded.runtime = runtime
            self._capture.set_runtime(process, str(runtime) if runtime else None)

    def write(self, batch: _native.Batch, events: Sequence[Event]) -> None:
        """Write one batch with its events, in one transaction. OutputError; what was written before stays."""
        for event in events:
            self._begin(event)
        self._write_stacks(batch)
        for thread, start_ns, end_ns, runs in batch.runs:
            self._capture.add_runs(thread, start_ns, end_ns, runs)
        for thread, standing in batch.standing:
            if standing is None:
                self._capture.clear_standing(thread)
            else:
                self._capture.set_standing(thread, *standing)
        self._capture.add_gil_waits(batch.gil_waits)
        self._write_losses(batch.losses)
        self.account = batch.account
        self._capture.set_account(self.account)
        for event in events:
            self._end(event)
        self._capture.commit(batch.until_ns)

    def look_at_names(self) -> None:
        """Write what Python calls the threads that have come since the last look."""
        for recorded in self._processes.values():
            if recorded.runtime and recorded.names.is_due:
                with suppress(TargetError):
                    for thread, name in recorded.names.look(Process(recorded.pid), recorded.runtime).items():
                        self._capture.rename_thread(thread, name)

    def look_at_mappings(self, seen_ns: int, among: Collection[int] | None) -> None:
        """Write the files that processes have mapped since they were last looked at, with their build ids.

        among: the processes to look at; None: all.
        """
        for process, recorded in self._processes.items():
            if among is not None and process not in among:
                continue
            # Of one that has ended, what it had mapped when it was last looked at is written.
            with suppress(TargetError):
                self._add_mappings(process, recorded, seen_ns)

    def _add_mappings(self, process: int, recorded: _Recorded, seen_ns: int) -> None:
        target = Process(recorded.pid)
        mark = target.maps_mark()
        if mark == recorded.maps_mark:
            return
        for module in modules(target.maps()):
            if (module.path, module.start) in recorded.modules:
                continue
            recorded.modules.add((module.path, module.start))
            try:
                build_id = Image(target.memory, module).build_id
            except (ElfError, MemoryReadError):
                build_id = None  # not an ELF file: a font, a database, an archive of modules
            for mapping in module.mappings:
                self._capture.add_mapping(
                    process, mapping.start, mapping.end, mapping.offset, mapping.path, build_id, seen_ns
                )
        recorded.maps_mark = mark

    def _begin(self, event: Event) -> None:
        match event.kind:
            case EventKind.PROCESS_START:
                recorded = self._processes[event.process] = _Recorded(event.id, self._expected.pop(event.id, None))
                runtime = str(recorded.runtime) if recorded.runtime else None
                self._capture.add_process(
                    event.process, event.id, event.parent or None, _command(event.id), runtime, event.at_ns
                )
            case EventKind.PYTHON_INHERITED:
                recorded = self._processes[event.process]
                parent = self._processes.get(event.parent)
                recorded.runtime = parent.runtime if parent else None
                self._capture.set_runtime(event.process, str(recorded.runtime) if recorded.runtime else None)
            case EventKind.THREAD_START:
                self._capture.add_thread(event.thread, event.process, event.id, _name(event), event.at_ns)
                self._processes[event.process].names.add(event.id, event.thread)
            case EventKind.THREAD_NAME:
                if not self._processes[event.process].names.has(event.id):
                    self._capture.rename_thread(event.thread, _name(event))

    def _end(self, event: Event) -> None:
        """Note the end of something: after the batch that its last samples came in."""
        match event.kind:
            case EventKind.THREAD_END:
                self._capture.clear_standing(event.thread)
                self._capture.end_thread(event.thread, event.at_ns)
                self._processes[event.process].names.remove(event.id)
            case EventKind.PROCESS_END:
                status = event.value if event.value >= 0 else None
                if status is not None:
                    self.exit_statuses[event.id] = status
                self._capture.end_process(event.process, event.at_ns, status)
                del self._processes[event.process]
            case EventKind.CODES_FORGOTTEN:
                recorded = self._processes.get(event.process)
                if recorded:
                    recorded.codes = {id_: code for id_, code in recorded.codes.items() if id_ >= event.value}

    def _write_stacks(self, batch: _native.Batch) -> None:
        codes: dict[int, Code] = {}
        for process, (code_id, first_line, filename, name, qualname, line_table) in batch.codes:
            recorded = self._processes[process]
            assert recorded.runtime is not None  # code objects come from a runtime that was set
            code = Code(recorded.runtime.version, first_line, filename, name, qualname, line_table)
            codes[code_id] = recorded.codes[code_id] = code
            self._sources.name(code.file, process, recorded.pid)
        for frame_id, code_id, instruction, incomplete in batch.python_frames:
            self._capture.add_frame(frame_id, self._frame(codes, code_id, instruction, incomplete=incomplete))
        for frame_id, module, address, proof, by_frame_pointer in batch.native_frames:
            flags = native_flags(proof, by_frame_pointer=by_frame_pointer)
            self._add_module(module)
            self.native_frames[frame_id] = module, address
            self._capture.add_native_frame(frame_id, module or None, address, flags)
        self._kernel_names += (name.decode("ascii", "backslashreplace") for name in batch.kernel_names)
        for frame_id, kernel_address, number in batch.kernel_frames:
            self._capture.add_kernel_frame(frame_id, kernel_address)
            if kernel_address is None:  # of a blocked thread: the kernel tells such stacks by names alone
                self._capture.add_functions(frame_id, [kernel_frame(self._kernel_names[number])])
            else:
                self.kernel_frames[frame_id] = kernel_address
        self._capture.add_stacks(batch.stacks)

    def _add_module(self, number: int) -> None:
        if number and number not in self._modules:
            self._modules.add(number)
            module = self._book.modules[number]
            self._capture.add_module(number, module.path, module.build_id)

    def _frame(self, codes: dict[int, Code], code_id: int, instruction: int, *, incomplete: bool) -> Frame:
        if code_id == 0:
            return marker(_native.LOSSES[instruction], native=incomplete)
        if code_id not in codes:
            codes[code_id] = self._code(code_id)
        return codes[code_id].frame(instruction, incomplete=incomplete)

    def _code(self, code_id: int) -> Code:
        for recorded in self._processes.values():
            if code := recorded.codes.get(code_id):
                return code
        raise KeyError(code_id)

    def _write_losses(self, losses: Iterable[tuple[int, str, int, int]]) -> None:
        for process, reason, count, weight_ns in losses:
            recorded = self._processes[process]
            if recorded.losses.get(reason) == (count, weight_ns):
                continue
            self.losses[reason] = self.losses.get(reason, 0) + count - recorded.losses.get(reason, (0, 0))[0]
            recorded.losses[reason] = (count, weight_ns)
            self._capture.set_losses(process, {reason: (count, weight_ns)})


def _command(pid: int) -> list[str]:
    with suppress(TargetError):
        process = Process(pid)
        return process.command or [process.name]
    return []  # it has ended already


def _name(event: Event) -> str:
    return event.name.decode("utf-8", "backslashreplace")
