"""Proving a layout on the live target before anything trusts it.

The proof reads what the layout says is there and looks for what can only be so if it is right: pointers that close,
threads that the kernel knows too, code objects of type `code`, names that are names, line tables that decode to the
very length of the code. The target runs on meanwhile, so a read may be torn: a failed attempt is made again, up to
`_ATTEMPTS` times in `_TIME` seconds, before it counts.

docs/design/0002-layouts.md lists the fields that no proof can cover.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from weft.cpython.layout import FIELDS, Instruction, Layout, RuntimeAddresses
from weft.cpython.linetable import LineTable, LineTableError
from weft.cpython.objects import ObjectError, read_bytes, read_name, type_name
from weft.errors import LayoutError, MemoryReadError, WeftError
from weft.target.memory import Memory, read_u32, read_u64

_ATTEMPTS = 60
# Seconds. A target that calls all the time tears attempts: 375 proofs in storms on all versions, on two CPUs with work
# for eight, took up to 4; once one failed at 0.2 s.
_TIME = 0.6
_MAX_INTERPRETERS = 256
_MAX_THREADS = 256  # looked at; there may be more
_MAX_THREAD = 16 << 10  # bytes of a thread state
_MAX_FRAMES = 1000  # looked at in a thread; there may be more
_MAX_CHUNKS = 64  # each is twice as large as the one before
_MAX_LINE = 100_000_000
# Frames are what tears most, so an attempt looks at them again and again. Without this a proof of a target that goes
# up and down 50 frames all the time took 7 to 10 attempts (median of 100) and up to 92; with it 1 and up to 2.
_ATTEMPTS_AT_FRAMES = 25

# Where glibc and musl keep the thread id in what pthread_self() returns, x86-64: struct pthread of glibc's
# nptl/descr.h (the same since 2.11) and of musl's src/internal/pthread_impl.h.
_PTHREAD_TID = (0x2D0, 0x30)

# RESUME and what CPython puts in its place while it runs (specialized, instrumented), by minor version:
# Include/internal/pycore_opcode.h of 3.11, pycore_opcode_metadata.h and opcode_ids.h of later ones.
_RESUME = {
    (3, 11): (151, 150),
    (3, 12): (151, 240),
    (3, 13): (149, 207, 236),
    (3, 14): (128, 196, 245),
    (3, 15): (128, 200, 201, 244),
}


# Instructions from here on stand for others: instrumented ones, and a JIT's entry (the same files).
_INSTRUMENTED = 234

# Fields named like those of a struct that are not read from it.
_NOT_READ = ("thread_size", "frame_size", "frame_code_tags", "frame_owner_shim", "frame_localsplus")


class NotReadyError(WeftError):
    """Nothing can be proven yet: the interpreter is starting, or no thread runs Python at this instant."""


class _FailedError(Exception):
    """One attempt failed; the message is the line that says what."""


_FAILURES = (_FailedError, MemoryReadError, ObjectError, LineTableError)


def prove(memory: Memory, layout: Layout, addresses: RuntimeAddresses, tids: Callable[[], Collection[int]]) -> None:
    """Prove the layout, or raise: NotReadyError if there is nothing to prove it on, LayoutError if it is wrong.

    `tids` returns the ids of the target's threads in its own PID namespace.
    """
    deadline = time.monotonic() + _TIME
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _Attempt(memory, layout, addresses, frozenset(tids())).run()
        except _FAILURES as error:
            if attempt == _ATTEMPTS or time.monotonic() > deadline:
                raise LayoutError(f"the layout of CPython {layout.python} is not proven: {error}") from error
            time.sleep(_TIME / _ATTEMPTS / 2)
        else:
            return


@dataclass(slots=True)
class _Seen:
    """What the frames of all threads showed together."""

    codes: set[int] = field(default_factory=set)
    names: list[tuple[str, str | None, str, int]] = field(default_factory=list)  # name, qualified name, file, line
    lines_in_addresses: int = 0  # of how many code objects the line may be half of an object's address
    versions: list[int] = field(default_factory=list)
    callers: int = 0  # frames that have called another
    callers_begun: int = 0  # of them, those that stand behind their first instruction


class _Attempt:
    def __init__(self, memory: Memory, layout: Layout, addresses: RuntimeAddresses, tids: frozenset[int]) -> None:
        self.memory = memory
        self.layout = layout
        self.addresses = addresses
        self.tids = tids
        self.seen = _Seen()

    def run(self) -> None:
        self._structure()
        threads: dict[int, bytes] = {}  # address -> its bytes
        interpreters = self._interpreters()
        for interpreter in interpreters:
            threads |= self._threads(interpreter)
        if not threads:
            raise NotReadyError("the interpreter has no thread yet")
        self._kernel_knows(threads)
        self._gil(interpreters, threads)
        self._frames(threads, len(interpreters))

    def _structure(self) -> None:
        """Check relations that hold in every version, by CPython's bytesobject.h, unicodeobject.h and pystate.h."""
        layout = self.layout
        for prefix, size, limit in ("thread_", layout.thread_size, 1 << 16), ("frame_", layout.frame_size, 1 << 12):
            fields = [name for name in FIELDS if name.startswith(prefix) and name not in _NOT_READ]
            if size > limit or any((getattr(layout, name) or 0) >= size for name in fields):
                raise _FailedError(f"fields of a {prefix[:-1]} lie outside of it")
        if layout.bytes_data != layout.bytes_length + (20 if layout.names_are_bytes else 16):
            raise _FailedError("the contents of bytes do not follow their length and hash")
        chunk = (layout.chunk_previous, layout.chunk_size, layout.chunk_top, layout.chunk_data)
        if layout.thread_chunk is not None and chunk != (0, 8, 16, 24):
            raise _FailedError("a chunk of the data stack does not begin with four words")
        if layout.thread_chunk is not None and layout.thread_chunk_top != layout.thread_chunk + 8:
            raise _FailedError("the top of the data stack does not follow its newest chunk")
        if layout.names_are_bytes:
            return
        # Up to 3.11, a compact str has wstr_length behind utf8_length and utf8.
        more = 16 if layout.python >= (3, 12) else 24
        if layout.str_ascii_data is None or layout.str_compact_data != layout.str_ascii_data + more:
            raise _FailedError("the two kinds of compact str do not differ by their UTF-8 fields")
        if layout.str_data_pointer != layout.str_compact_data:
            raise _FailedError("a str that is not compact does not begin with the fields of a compact one")

    def _interpreters(self) -> list[int]:
        found: list[int] = []
        ids: list[int] = []
        address = read_u64(self.memory, self.addresses.interpreters_head)
        while address and len(found) < _MAX_INTERPRETERS:
            if address in found:
                raise _FailedError("the list of interpreters runs in a circle")
            found.append(address)
            if self.layout.interp_id is not None:
                ids.append(read_u64(self.memory, address + self.layout.interp_id))
            address = read_u64(self.memory, address + self.layout.interp_next)
        if not found:
            raise NotReadyError("there is no interpreter yet")
        # From 3.7 on the head is followed by a pointer to the main interpreter (struct pyinterpreters).
        if ids and read_u64(self.memory, self.addresses.interpreters_head + 8) != found[-1]:
            raise _FailedError("the list of interpreters does not end with the main one")
        if ids and not (0 in ids and ids == sorted(set(ids), reverse=True)):
            # The newest comes first, the main one, with the id 0, last (Python/pystate.c).
            raise _FailedError(f"the ids of the interpreters are {ids[:4]}")
        return found

    def _threads(self, interpreter: int) -> dict[int, bytes]:
        """Return the thread states of an interpreter and their bytes."""
        layout = self.layout
        found: dict[int, bytes] = {}
        address = read_u64(self.memory, interpreter + layout.interp_threads_head)
        while address and len(found) < _MAX_THREADS:
            if address in found:
                raise _FailedError("the list of threads runs in a circle")
            found[address] = state = self.memory.read(address, layout.thread_size)
            # From 3.6 on, prev comes before next.
            if len(found) == 1 and layout.python >= (3, 6) and _u64(state, layout.thread_next - 8):
                raise _FailedError("the first thread state has one before it")
            if _u64(state, layout.thread_interp) != interpreter:
                raise _FailedError(f"the thread state at {address:#x} does not point back to its interpreter")
            address = _u64(state, layout.thread_next)
        return found

    def _kernel_knows(self, threads: dict[int, bytes]) -> None:
        """At least one thread state must belong to a thread of the process; those of ended threads may linger."""
        if not any(self._is_pthread(_u64(state, self.layout.thread_pthread)) for state in threads.values()):
            raise _FailedError("no thread state points to a thread of the process")
        native = self.layout.thread_native_id
        if native is not None and not any(_u64(state, native) in self.tids for state in threads.values()):
            raise _FailedError("no thread state has the id of a thread of the process")

    def _is_pthread(self, address: int) -> bool:
        for offset in _PTHREAD_TID:
            try:
                if read_u32(self.memory, address + offset) in self.tids:
                    return True
            except MemoryReadError:
                continue
        return False

    def _gil(self, interpreters: list[int], threads: dict[int, bytes]) -> None:
        layout = self.layout
        if layout.free_threaded:
            return
        if layout.interp_gil is not None:
            gils = {read_u64(self.memory, interpreter + layout.interp_gil) for interpreter in interpreters}
            for gil in gils:
                assert layout.gil_last_holder is not None
                self._gil_is_sane(gil, read_u64(self.memory, gil + layout.gil_last_holder), interpreters, threads)
            return
        if not self.addresses.current_thread:
            return
        holder = read_u64(self.memory, self.addresses.current_thread)
        if holder and not self._is_state(holder, interpreters, threads):
            raise _FailedError("the thread that holds the GIL is none of the interpreter's")
        if self.addresses.gil and layout.gil_locked is not None:
            locked = read_u32(self.memory, self.addresses.gil + layout.gil_locked)
            if locked != bool(holder):
                raise _FailedError(f"the GIL is {locked:#x} while its holder is {holder:#x}")

    def _is_state(self, address: int, interpreters: list[int], threads: dict[int, bytes]) -> bool:
        """Whether it is a thread state: one that was listed, or that may lie behind those."""
        if address in threads or len(threads) < _MAX_THREADS:
            return address in threads
        return read_u64(self.memory, address + self.layout.thread_interp) in interpreters

    def _gil_is_sane(self, gil: int, holder: int, interpreters: list[int], threads: dict[int, bytes]) -> None:
        assert self.layout.gil_locked is not None
        locked = read_u32(self.memory, gil + self.layout.gil_locked)
        if locked not in (0, 1):
            raise _FailedError(f"the GIL's lock is {locked:#x}, neither 0 nor 1")
        if locked and not self._is_state(holder, interpreters, threads):
            raise _FailedError("the thread that holds the GIL is none of the interpreters'")
        if not locked and (not holder or holder % 8):
            # drop_gil (Python/ceval_gil.c) leaves the last holder; it may have been freed since.
            raise _FailedError("the GIL is free, but no thread has held it")

    def _frames(self, threads: Collection[int], interpreters: int) -> None:
        """At least one thread must have a whole chain of frames; the others may be moving."""
        for attempt in range(1, _ATTEMPTS_AT_FRAMES + 1):
            self.seen = _Seen()
            failures: list[Exception] = []
            whole = 0
            for thread in threads:
                try:
                    whole += self._thread_frames(thread) > 0
                except _FAILURES as error:
                    failures.append(error)
            if whole:
                self._together(interpreters)
                return
            if not failures:
                raise NotReadyError("no thread runs Python at this instant")
            if attempt == _ATTEMPTS_AT_FRAMES:
                raise failures[0]

    def _thread_frames(self, thread: int) -> int:
        """Check a thread's frames and return how many are Python's. They are read first: what is slow comes after."""
        frames = self._chain(thread)
        for called, frame in enumerate(frames):
            self._frame(frame, called=called > 0)
        return len(frames)

    def _cframes(self, thread: int, state: bytes) -> int:
        """Check that the chain of cframes leads to the thread state's own, root_cframe (3.11, 3.12).

        Returns how many come before that one: each activation has one, greenlet puts one more at the end.
        """
        if self.layout.cframe_previous is None:
            return 0
        assert self.layout.thread_cframe is not None
        cframe = _u64(state, self.layout.thread_cframe)
        if not cframe:
            return 0  # the thread has not begun
        for before in range(_MAX_FRAMES):
            if 0 <= cframe - thread < _MAX_THREAD:
                return before
            cframe = read_u64(self.memory, cframe + self.layout.cframe_previous)
        return _MAX_FRAMES

    def _chain(self, thread: int) -> list[bytes]:
        """Follow a thread's frames and return the bytes of those that are Python's, innermost first."""
        layout = self.layout
        state = self.memory.read(thread, layout.thread_size)
        chunks = self._chunks(state)
        cframes = self._cframes(thread, state)
        address = _u64(state, layout.thread_frame)
        if address and layout.cframe_frame is not None:
            address = read_u64(self.memory, address + layout.cframe_frame)
        frames: list[bytes] = []
        visited: set[int] = set()
        entries = 0
        while address and len(visited) < _MAX_FRAMES:
            if address in visited:
                raise _FailedError("a chain of frames runs in a circle")
            visited.add(address)
            frame = self.memory.read(address, layout.frame_size)
            owner = 0 if layout.frame_owner is None else frame[layout.frame_owner]
            if owner > 4:
                raise _FailedError(f"the frame at {address:#x} has the owner {owner}")
            if layout.frame_owner_shim is None or owner < layout.frame_owner_shim:
                if owner == 0 and chunks and not any(start <= address < end for start, end in chunks):
                    raise _FailedError(f"the frame at {address:#x} lies outside of its thread's data stack")
                frames.append(frame)
            address = _u64(frame, layout.frame_previous)
            if layout.frame_is_entry is not None:
                entries += self._is_entry(frame, outermost=not address)
        if entries > cframes:
            raise _FailedError(f"a thread has {entries} entry frames and {cframes} cframes")
        return frames

    def _is_entry(self, frame: bytes, *, outermost: bool) -> bool:
        assert self.layout.frame_is_entry is not None
        entry = frame[self.layout.frame_is_entry]
        if entry > 1:
            raise _FailedError(f"whether a frame is an entry frame is {entry}, neither 0 nor 1")
        if outermost and not entry:
            raise _FailedError("the outermost frame of a thread is no entry frame")
        return bool(entry)

    def _chunks(self, state: bytes) -> list[tuple[int, int]]:
        """Return where the data stack of a thread lies, chunk by chunk."""
        layout = self.layout
        if layout.thread_chunk is None:
            return []
        assert layout.chunk_size is not None
        assert layout.chunk_previous is not None
        found: list[tuple[int, int]] = []
        address = _u64(state, layout.thread_chunk)
        while address and len(found) < _MAX_CHUNKS:
            size = read_u64(self.memory, address + layout.chunk_size)
            # Python/pystate.c: the first has 16 KiB, each of the others a power of two times that.
            if size < 16384 or size % 4096:
                raise _FailedError(f"a chunk of the data stack has {size:#x} bytes")
            if not found and not address <= _u64(state, layout.thread_chunk + 8) <= address + size:
                raise _FailedError("the top of a data stack lies outside of its newest chunk")
            found.append((address, address + size))
            address = read_u64(self.memory, address + layout.chunk_previous)
        return found

    def _frame(self, frame: bytes, *, called: bool) -> None:
        layout = self.layout
        code = _u64(frame, layout.frame_code) & ~layout.frame_code_tags
        if code not in self.seen.codes:
            table = self._code(code)
            self.seen.codes.add(code)
        else:
            table = None
        offset = self._instruction(frame, code, table)
        self.seen.callers += called
        self.seen.callers_begun += called and offset > 0

    def _code(self, code: int) -> LineTable | None:
        layout = self.layout
        if (found := type_name(self.memory, layout, code)) != "code":
            raise _FailedError(f"the code of a frame has the type {found!r}")
        name = self._name(code + layout.code_name)
        file = self._name(code + layout.code_filename)
        if name == file == "__init__":
            return (
                None  # the trampoline behind an inlined __init__ is no function (Python/specialize.c, _Py_InitCleanup)
            )
        qualified = None if layout.code_qualname is None else self._name(code + layout.code_qualname)
        line = read_u32(self.memory, code + layout.code_firstlineno)
        if line > _MAX_LINE:
            raise _FailedError(f"{name!r} begins at line {line}")
        self.seen.lines_in_addresses += self._is_object(read_u64(self.memory, code + layout.code_firstlineno))
        table = LineTable(
            layout.python, read_bytes(self.memory, layout, read_u64(self.memory, code + layout.code_linetable)), line
        )
        self.seen.names.append((name, qualified, file, line))
        if layout.code_version is not None:
            self.seen.versions.append(read_u32(self.memory, code + layout.code_version))
        if layout.code_firsttraceable is not None:
            assert layout.code_adaptive is not None
            first = read_u32(self.memory, code + layout.code_firsttraceable)
            if first * 2 >= table.length:
                raise _FailedError(f"{name!r} has its first traceable instruction behind its end")
            opcode = self.memory.read(code + layout.code_adaptive + first * 2, 1)[0]
            if opcode not in _RESUME[layout.python[:2]] and opcode < _INSTRUMENTED:
                raise _FailedError(f"{name!r} does not begin with RESUME")
        return table

    def _is_object(self, address: int) -> bool:
        try:
            return bool(type_name(self.memory, self.layout, address))
        except MemoryReadError:
            return False

    def _name(self, pointer: int) -> str:
        name = read_name(self.memory, self.layout, read_u64(self.memory, pointer))
        if not name or "\0" in name:
            raise _FailedError(f"a code object has the name {name[:64]!r}")
        return name

    def _instruction(self, frame: bytes, code: int, table: LineTable | None) -> int:
        """Return how many bytes into its code a frame stands; negative if it has not begun."""
        layout = self.layout
        if layout.instruction_kind != Instruction.POINTER:
            index: int = struct.unpack_from("<i", frame, layout.frame_instruction)[0]
            wide = layout.instruction_kind == Instruction.BYTE_INDEX and not layout.names_are_bytes
            if index < -1 or index > _MAX_LINE or (wide and index >= 0 and index % 2):
                raise _FailedError(f"a frame stands at the instruction {index}")
            offset = index * 2 if layout.instruction_kind == Instruction.UNIT_INDEX else index
        else:
            offset = _u64(frame, layout.frame_instruction) - self._bytecode(frame, code)
            # 3.11 and 3.12 let a frame that has not begun stand one unit before its code.
            if offset < -2 or offset % 2:
                raise _FailedError(f"a frame stands {offset} bytes into its code")
        if table is not None and layout.python >= (3, 10) and offset >= table.length:
            raise _FailedError(f"a frame stands {offset} bytes into its code, which has {table.length}")
        return offset

    def _bytecode(self, frame: bytes, code: int) -> int:
        layout = self.layout
        assert layout.code_adaptive is not None
        if layout.code_tlbc is None or layout.frame_tlbc_index is None:
            return code + layout.code_adaptive
        # A free-threaded build gives threads their own copies: struct _PyCodeArray {size; entries[]}.
        array = read_u64(self.memory, code + layout.code_tlbc)
        index: int = struct.unpack_from("<i", frame, layout.frame_tlbc_index)[0]
        if not 0 <= index < read_u64(self.memory, array):
            raise _FailedError(f"a frame runs copy {index} of its code, which there is not")
        return read_u64(self.memory, array + 8 + index * 8)

    def _together(self, interpreters: int) -> None:
        """Check what one frame alone may lack, but hardly all of them."""
        seen = self.seen
        if seen.callers > 2 * seen.callers_begun:  # a signal handler may be called before a first instruction
            raise _FailedError("most frames that have called another stand at their first instruction")
        if all(name == file for name, _, file, _ in seen.names):
            raise _FailedError("every code object has its name for a file name")
        # The lower half of an address can pass for a line. By chance a line and what follows it name an object: up to
        # 3.10 that is room which nobody fills, where half an address may be left of what lay there before.
        if seen.names and seen.lines_in_addresses == len(seen.names):
            raise _FailedError("each line at which a code object begins is half of an address")
        lines = {line for _, _, _, line in seen.names}
        if len(seen.names) >= 3 and len(lines) == 1 and lines != {1}:
            raise _FailedError("all code objects begin at the same line")
        versions = Counter(version for version in seen.versions if version)
        if versions and max(versions.values()) > interpreters:  # each counts on its own
            raise _FailedError("code objects have the same version")
        if self.layout.code_qualname is None:
            return
        modules = [line for name, _, _, line in seen.names if name == "<module>"]
        if modules and 1 not in modules:
            raise _FailedError("no module begins at line 1")
        dotted = [(name, qualified) for name, qualified, _, _ in seen.names if qualified and "." in qualified]
        if dotted and not any(qualified.rpartition(".")[2] == name for name, qualified in dotted):
            raise _FailedError("no qualified name ends in the name")


def _u64(data: bytes, at: int) -> int:
    value: int = struct.unpack_from("<Q", data, at)[0]
    return value
