"""The code of processes: their modules, numbered, with unwind tables as they are needed.

A module is known by its build-id (or its file, where it has none), so that processes share its number, its table and
what is known of its symbols.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from weft import _native
from weft.errors import MemoryReadError, TargetError
from weft.target.debugfiles import debug_file, shared_file
from weft.target.elf import ElfError, ElfFile
from weft.target.image import Image
from weft.target.jit import DESCRIPTOR, JitCode
from weft.target.maps import Mapping, Module, modules
from weft.target.parts import parts_of
from weft.target.perfmap import JitNames, Room
from weft.target.process import Process
from weft.target.target import Target
from weft.target.unwinding import table_of

_VDSO = "[vdso]"
_WORD = (1 << 64) - 1
_MOST_IDLE = 64 << 20  # bytes of tables that no process uses; those of files with a build-id are quickly back from disk
_VSYSCALL = "[vsyscall]"
ANONYMOUS = "[jit]"  # what code in no module is said to lie in
_FIRST = re.compile(r"/(libc|libpthread|ld)[.-][^/]*$|^\[vdso\]$")  # some of it is in every stack
# Up to 2.7, and from 3.6 on; what the compiler has put aside of it as unlikely has a symbol of its own.
_EVAL_LOOPS = ("PyEval_EvalFrameEx", "_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault.cold")
# Of greenlet 2.0, and of later ones: the function that never returns. Behind it lies what the greenlet's starter had on
# the stack, or whatever has come there since.
_GREENLET = "_ZN8greenlet12UserGreenlet15inner_bootstrap"
_STACK_BASES = tuple(
    f"{_GREENLET}{arguments}{part}"
    for arguments in (
        "ERNS_4refs14_OwnedGreenletI9_greenletXadL_ZNS1_15GreenletCheckerEPvEEEE"
        "RNS1_14OwnedReferenceI7_objectXadL_ZNS1_11NoOpCheckerES4_EEEE",
        "EP9_greenletP7_object",
    )
    for part in ("", ".cold")
)
_RUNTIME = ("_PyRuntime", "_PyThreadState_Current", "Py_Initialize")


@dataclass(slots=True)
class CodeModule:
    """A module that runs in some process of ours."""

    number: int  # from 1 on
    path: str
    build_id: str | None
    file: ElfFile | None = None  # None: it cannot be had, or nothing of it was needed yet
    debug: ElfFile | None = None  # that has its debug information, if that is a file of its own
    shared: ElfFile | None = None  # that has what dwz has moved from it
    table: _native.UnwindTable | None = None  # None: nothing of it was needed yet, or for long
    is_read: bool = False  # something of it was needed
    problems: list[str] = field(default_factory=list)  # what of it cannot be read, and why
    jit: JitCode | None = None  # of code in no module
    jit_descriptor: int = 0  # where a JIT compiler tells of its objects, in the module; 0: none does
    eval_loops: list[tuple[int, int]] = field(default_factory=list)  # addresses in the module [begin, end)
    stack_bases: list[tuple[int, int]] = field(default_factory=list)  # the same, of functions that end stacks

    @property
    def is_interpreter(self) -> bool:
        """Whether it holds CPython's eval loop."""
        return bool(self.eval_loops)


@dataclass(slots=True)
class _Place:
    """Where a module lies in a process."""

    module: CodeModule
    image: Image | None  # None: of code in no module, whose addresses are the process's own
    code: list[Mapping]

    @property
    def bias(self) -> int:
        return self.image.bias if self.image else 0

    def holds(self, pc: int) -> bool:
        return any(mapping.start <= pc < mapping.end for mapping in self.code)

    def urgency(self) -> tuple[bool, int]:
        return not _FIRST.search(self.module.path), sum(mapping.end - mapping.start for mapping in self.code)


class CodeBook:
    """The modules of all processes of a recording, or of the one that is dumped. For use from any thread.

    Modules have numbers in the order in which they are found, which native code takes for theirs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[object, CodeModule] = {}
        # By pid, with the program that they are of: after an exec, their memory is no longer there.
        self._places: dict[int, tuple[Sequence[bytes], dict[tuple[str, int, int], _Place | None]]] = {}
        # By pid, modules that it has run. Native code may hold on to their tables, even when they have been unloaded.
        self._used: dict[int, set[int]] = {}
        self._table_bytes = 0
        self._most_bytes = _MOST_IDLE
        self._anonymous: dict[int, CodeModule] = {}  # by pid: for code in no module
        self._room = Room()
        self.modules: dict[int, CodeModule] = {}

    def map_of(self, target: Target, wanted: Sequence[int] = (), within_s: float = 0.0) -> _native.CodeMap:
        """Return the code of a target as it is mapped now, with the tables that are there.

        Tables are made for the interpreter, and for the modules that `wanted` addresses lie in; then for the others,
        for as long as that takes less than `within_s` of this thread's CPU time, which a busy machine does not use up:
        the C library's first, and small ones before large ones. TargetError.
        """
        deadline = time.thread_time() + within_s
        with self._lock:
            program = target.program
            places = self._look(target, program)
            code = _native.CodeMap()
            for place in sorted(places, key=_Place.urgency):
                if place.module.table is None and (time.thread_time() < deadline or any(map(place.holds, wanted))):
                    self._load(target, program, place)
            described = [place.bias + place.module.jit_descriptor for place in places if place.module.jit_descriptor]
            for place in places:
                if place.module.jit:
                    place.module.jit.look(target.memory, described)
            by_address = [(mapping.start, mapping, place) for place in places for mapping in place.code]
            for start, mapping, place in sorted(by_address, key=itemgetter(0)):
                jit = place.module.jit
                table = jit.table_of(mapping) if jit else place.module.table
                code.add(start, mapping.end, place.bias & _WORD, place.module.number, table, anonymous=jit is not None)
            for place in places:
                bias = place.bias  # of a file that claims high addresses for itself it is below 0
                for begin, end in place.module.eval_loops:
                    code.add_eval_loop(bias + begin & _WORD, bias + end & _WORD)
                for begin, end in place.module.stack_bases:
                    code.add_stack_base(bias + begin & _WORD, bias + end & _WORD)
            return code

    def forget(self, pid: int) -> None:
        """Note that a process has ended, or become another program."""
        with self._lock:
            self._places.pop(pid, None)
            self._used.pop(pid, None)
            if self._table_bytes > self._most_bytes:
                self._drop_idle_tables()
            module = self._anonymous.pop(pid, None)
            if module and module.jit:
                module.jit.close()

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            for module in self.modules.values():
                for file in (module.file, module.debug, module.shared):
                    if file:
                        file.close()
                module.file = module.debug = module.shared = None
                if module.jit:
                    module.jit.close()

    def _look(self, target: Target, program: Sequence[bytes]) -> list[_Place]:
        ran, before = self._places.get(target.pid, (program, {}))
        if ran != program:
            before = {}
        now: dict[tuple[str, int, int], _Place | None] = {}
        mappings = target.maps()
        vdso = [Module((mapping,)) for mapping in mappings if mapping.path == _VDSO]
        for module in modules(mappings) + vdso:
            code = [mapping for mapping in module.mappings if mapping.perms[2:3] == "x"]
            if code:
                key = (module.path, module.start, module.mappings[0].inode)
                now[key] = before[key] if key in before else self._place(target, program, module, code)
        self._places[target.pid] = program, now
        places = [place for place in now.values() if place]
        self._used.setdefault(target.pid, set()).update(place.module.number for place in places)
        known = {mapping for place in places for mapping in place.code}
        rest = [m for m in mappings if m.perms[2:3] == "x" and m not in known and m.path not in (_VDSO, _VSYSCALL)]
        # A module's own mappings come last, and hold where they have changed since it was found.
        return [_Place(self._anonymous_module(target), None, rest), *places] if rest else places

    def _anonymous_module(self, target: Target) -> CodeModule:
        """Return the module that stands for a process's code in no module: of JIT compilers, and trampolines."""
        module = self._anonymous.get(target.pid)
        if module is None:
            module = self._anonymous[target.pid] = CodeModule(len(self.modules) + 1, ANONYMOUS, None)
            module.table = _native.UnwindTable.build([])
            module.jit = JitCode(JitNames(target, self._room) if isinstance(target, Process) else None)
            self.modules[module.number] = module
        return module

    def _place(self, target: Target, program: Sequence[bytes], module: Module, code: list[Mapping]) -> _Place | None:
        try:
            image = Image(target.memory, module)
        except (ElfError, MemoryReadError):
            return None  # libffi's trampolines are in a file that is no module: code in no module then
        first = module.mappings[0]
        build_id = image.build_id
        if not _still_runs(target, program):
            return None
        key = build_id or (first.dev, first.inode, module.path, *_written(target, module))
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = CodeModule(len(self.modules) + 1, module.path, build_id)
            self.modules[known.number] = known
        place = _Place(known, image, code)
        if known.table is None and image.symbols(_RUNTIME):
            self._load(target, program, place)
        return place

    def _load(self, target: Target, program: Sequence[bytes], place: _Place) -> None:
        """Open the module's files, which may be gone once the target has ended, and make its table.

        What fails as the target ends or becomes another program is left to the next process that has the module.
        """
        module, image = place.module, place.image
        assert image is not None  # code in no module has its table from the start
        if not module.is_read:
            open_files(target, image, module)
        problem = None
        try:
            table = table_of(image, module.file)
        except (ElfError, MemoryReadError) as error:
            problem = f"its unwind information cannot be read: {error}"
            table = _native.UnwindTable.build([])
        if module.file is None and not _still_runs(target, program):
            return
        if problem and not module.is_read:
            module.problems.append(problem)
        module.is_read = True
        module.table = table
        self._table_bytes += table.bytes

    def _drop_idle_tables(self) -> None:
        in_use = set[int]().union(*self._used.values())
        self._table_bytes = 0
        for module in self.modules.values():
            if module.table and module.number in in_use:
                self._table_bytes += module.table.bytes
            elif not module.jit:
                module.table = None
        self._most_bytes = self._table_bytes + _MOST_IDLE


def _still_runs(target: Target, program: Sequence[bytes]) -> bool:
    """Whether the target runs the program that it did: what was read of it since is of no other one."""
    try:
        return target.program == program
    except TargetError:
        return False


def _written(target: Target, module: Module) -> tuple[int, ...]:
    """Return what tells the file's contents from those that it had before: a linker may write into the same inode."""
    if isinstance(target, Process):
        with suppress(OSError, ValueError):
            status = Path(target.paths(module.path)[0]).stat()
            if status.st_ino == module.mappings[0].inode:
                return status.st_size, status.st_mtime_ns
    return ()


def open_files(target: Target, image: Image, module: CodeModule) -> None:
    """Open a module's files, as far as they can be had, and note what its symbols tell of the interpreter."""
    with suppress(TargetError, OSError, ElfError, MemoryReadError):
        module.file = _vdso(image) if module.path == _VDSO else target.open_module(image)
    module.debug = debug_file(target, image, module.file)
    if with_entries := module.debug or module.file:
        module.shared = shared_file(target, with_entries)
    if module.file:
        with suppress(ElfError):
            found = module.file.ranges_of((*_EVAL_LOOPS, *_STACK_BASES, DESCRIPTOR))
            module.stack_bases = [range_ for name in _STACK_BASES for range_ in found.get(name, ())]
            ((module.jit_descriptor, _), *_) = found.get(DESCRIPTOR, [(0, 0)])
            module.eval_loops = [range_ for name in _EVAL_LOOPS for range_ in found.get(name, ())]
            parts = {part for loop in module.eval_loops for part in parts_of(module.file, *loop)}
            module.eval_loops += sorted(parts.difference(module.eval_loops))


def _vdso(image: Image) -> ElfFile:
    """Return the file that the kernel has mapped as the vdso. OSError, ElfError, MemoryReadError."""
    first = image.module.mappings[0]
    return ElfFile.of_bytes(_VDSO, image.memory.read(first.start, first.end - first.start))
