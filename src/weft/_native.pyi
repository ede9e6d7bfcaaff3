"""The C++ side. native/ tells more: each class stands in the header that bears its name."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

LAYOUT_FIELDS: Final[tuple[str, ...]]
LOSSES: Final[tuple[str, ...]]
STACK_POINTER: Final[int]  # its number in a RegisterSet
PC: Final[int]
WOVEN_PYTHON: Final = 0
WOVEN_NATIVE: Final = 1
WOVEN_MARKER: Final = 2

class Memory:
    """Anything with addresses and bytes."""

    def read(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes; raises MemoryReadError."""

class ProcessMemory(Memory):
    """The memory of a live process, by process_vm_readv(2)."""

    def __init__(self, pid: int) -> None: ...

class RecordingMemory(Memory):
    """Notes what is read through it, for snapshots."""

    def __init__(self, memory: Memory) -> None: ...
    def spans(self) -> list[tuple[int, int]]:
        """[(address, size)] in order of address; spans may overlap."""

class ImageMemory(Memory):
    """Memory that does not change. Of segments that overlap, the one that was added first is read."""

    def __init__(self) -> None: ...
    def add_bytes(self, begin: int, bytes: bytes) -> None: ...
    def add_file(self, begin: int, size: int, path: str, offset: int) -> None:
        """Bytes of a file; raises OSError (as RuntimeError) if it cannot be opened."""
    def add_zeros(self, begin: int, size: int) -> None: ...

class RuntimeAddresses:
    """Where one process keeps the roots; 0 where there is none."""

    def __init__(
        self, interpreters_head: int, current_thread: int = 0, gil: int = 0, current_state: int = 0
    ) -> None: ...
    @property
    def interpreters_head(self) -> int: ...
    @property
    def current_thread(self) -> int: ...
    @property
    def gil(self) -> int: ...
    @property
    def current_state(self) -> int: ...

# A string of the target, undecoded: bytes a character (0: bytes of Python 2), the bytes, whether it was cut.
_Text = tuple[int, bytes, bool]
# id, first line, file name, name, qualified name, line table
_Code = tuple[int, int, _Text, _Text, _Text, bytes]
# code id, byte offset of the instruction (negative: not started), incomplete
_Frame = tuple[int, int, bool]

# (WOVEN_PYTHON, index of the Python frame in the stacks put together), (WOVEN_NATIVE, module, address in it, proof,
# whether its caller was found by frame pointer), or
# (WOVEN_MARKER, loss)
WovenRow = tuple[Any, ...]

class PythonReader:
    """Reads the threads of one runtime out of any memory, once."""

    def __init__(self, memory: Memory, layout: Mapping[str, int | None], addresses: RuntimeAddresses) -> None: ...
    def threads(self) -> tuple[list[tuple[int, int, int, int, int]], str]:
        """[(address, interpreter, interpreter id, pthread, native id)], and a name of LOSSES."""
    def gil_holders(self) -> list[int]:
        """The addresses of the thread states that hold a GIL."""
    def stack(self, address: int, interpreter: int, pthread: int) -> tuple[list[_Frame], str, int]:
        """Frames innermost first, a name of LOSSES, and the address of the innermost anchor or 0."""
    def weave(
        self, states: Sequence[tuple[int, int, int]], code: CodeMap, registers: RegisterSet
    ) -> tuple[list[WovenRow], str, bool]:
        """The stacks of the thread states (address, interpreter, pthread) of one thread, innermost first, laid into its
        native stack, innermost first. Then the native stack's loss, and whether that stack tells that there are Python
        frames, and none were found."""
    def codes(self) -> list[_Code]:
        """Code objects that stacks since the last call have named for the first time."""

class CorruptRuns(ValueError):  # noqa: N818
    """The bytes are no runs."""

class RunEncoder:
    """Collects the runs of one thread, batch by batch."""

    def __init__(self) -> None: ...
    def append(self, at_ns: int, weight_ns: int, ticks: int, state: int, stack: int) -> None: ...
    def __len__(self) -> int: ...
    def take(self) -> tuple[int, int, bytes]:
        """The batch so far as (start_ns, end_ns, bytes); a new one begins."""

class RunFold:
    """Adds up batches: the weight and the ticks of each pair of stack and state. Raises CorruptRuns."""

    def __init__(self) -> None: ...
    def add(self, bytes: bytes) -> None: ...
    def totals(self) -> tuple[bytes, bytes, bytes, bytes]:
        """The columns (stack, state, weight_ns, ticks) as native 64-bit integers, in no order."""

def decode_runs(bytes: bytes, start_ns: int) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """The columns (at_ns, weight_ns, ticks, state, stack) as native 64-bit integers. Raises ValueError."""

class Mode(Enum):
    """What is sampled."""

    WALL = 0
    CPU = 1
    GIL = 2
    ALLOC = 3

class AttachResult(Enum):
    """How attaching went."""

    OK = 0
    GONE = 1
    DENIED = 2

class PythonPlace:
    """Where a process's Python is."""

    def __init__(self, layout: Mapping[str, int | None], addresses: RuntimeAddresses) -> None: ...

class Batch:
    """What has happened since the last batch. Every list is made anew when it is asked for."""

    @property
    def until_ns(self) -> int: ...
    @property
    def finished(self) -> bool: ...
    @property
    def events(self) -> list[tuple[int, int, int, int, int, int, int, bytes]]:
        """[(kind, at_ns, process, thread, parent, pid or tid, value, name)]."""
    @property
    def codes(self) -> list[tuple[int, _Code]]:
        """[(process, code)]."""
    @property
    def python_frames(self) -> list[tuple[int, int, int, bool]]:
        """[(id, code id, instruction, incomplete)]; code 0: a marker, and the instruction an index of LOSSES."""
    @property
    def native_frames(self) -> list[tuple[int, int, int, int, bool]]:
        """[(id, module or 0, address in it, proof, by frame pointer)]; of a call, the address of its last byte."""
    @property
    def kernel_names(self) -> list[bytes]:
        """Functions of the kernel, as kernel_stack() has them, in the order of their numbers; new ones."""
    @property
    def kernel_frames(self) -> list[tuple[int, int | None, int]]:
        """[(id, address, 0) or (id, None, number of a name)]; of a call, the address of its last byte."""
    @property
    def stacks(self) -> list[tuple[int, int, int]]:
        """[(id, parent, frame)]."""
    @property
    def runs(self) -> list[tuple[int, int, int, bytes]]:
        """[(thread, start_ns, end_ns, runs)]."""
    @property
    def standing(self) -> list[tuple[int, tuple[int, int, int] | None]]:
        """[(thread, (stack, state, since_ns) or None)]."""
    @property
    def gil_waits(self) -> list[tuple[int, int, int, int, int]]:
        """[(waiter, its stack, holder or 0, the stack of that or 0, weight_ns)], to be added to earlier ones."""
    @property
    def losses(self) -> list[tuple[int, str, int, int]]:
        """[(process, reason, count, weight_ns)], totals."""
    @property
    def account(self) -> dict[str, int]:
        """Totals of the recording."""

BPF_OBJECT: bytes  # the kernel's part of collector bpf (bpf/), compiled
# How many of these its maps have room for (bpf/abi.h).
BPF_MAPPINGS: int
BPF_PAGES: int
BPF_ROWS: int
BPF_CHUNK: int
BPF_OVERLAP: int
BPF_RULES: int
BPF_PLACES: int
BPF_BYTES_A_SAMPLE: int

class KernelMaps:
    """The maps that the sampler shares with the kernel's part of collector bpf: descriptors, and sizes in bytes."""

    def __init__(
        self,
        *,
        ring: int,
        ring_bytes: int,
        processes: int,
        ignored: int,
        others: int,
        threads: int,
        caches: int,
        states: int,
        cpus: int,
        cache_bytes: int,
        clocks: Sequence[Sequence[int]],
    ) -> None: ...

class ProcessFilter:
    """Which processes of the machine are sampled: those in a cgroup ("": any), of a user, with a name ("": any)."""

    def __init__(self, *, cgroup: str = "", user: int | None = None, name: str = "") -> None: ...

class Sampler:
    """Paces, stops, reads and accounts for every thread of the targets, on a thread of its own."""

    def __init__(
        self,
        rate_hz: float,
        mode: Mode,
        stop_threads: bool = True,
        follow_processes: bool = False,
        native: bool = False,
        kernel: KernelMaps | None = None,
        machine: ProcessFilter | None = None,
    ) -> None: ...
    def attach(
        self, pid: int, launching: bool = False, python: PythonPlace | None = None, code: CodeMap = ...
    ) -> AttachResult: ...
    def set_code(self, process: int, code: CodeMap) -> None: ...
    def set_python(self, process: int, place: PythonPlace) -> None: ...
    def set_no_python(self, process: int) -> None: ...
    def next_batch(self, timeout_s: float) -> Batch | None: ...
    def stop(self) -> None: ...

class StopResult(Enum):
    """How stopping a thread went."""

    STOPPED = 0
    GONE = 1
    DENIED = 2
    TIMED_OUT = 3

class StoppedThread:
    """One thread, held still by ptrace(2) from the making of this object until release() or its end."""

    def __init__(self, tid: int, timeout_s: float) -> None: ...
    @property
    def result(self) -> StopResult: ...
    @property
    def thread_pointer(self) -> int:
        """Its pthread_self (fs base); 0 if it is not stopped."""
    @property
    def registers(self) -> RegisterSet:
        """Its registers; none is known if it is not stopped."""
    def release(self) -> None:
        """Let it run; more calls do nothing."""

class RegisterSet:
    """A thread's registers as far as they are known, by their DWARF numbers; 16 is the pc."""

    def __init__(self) -> None: ...
    def __getitem__(self, number: int) -> int | None: ...
    def __setitem__(self, number: int, value: int) -> None: ...

class UnwindTable:
    """The unwind rules of one module's code, by addresses as linked."""

    @staticmethod
    def build(sections: Sequence[tuple[bytes, int, bool]]) -> UnwindTable:
        """Compile CFI: for each section its bytes, its address, and whether it is .eh_frame (or .debug_frame)."""
    def with_functions(self, functions: Sequence[tuple[int, int, bytes]]) -> UnwindTable:
        """This table and rules for functions that it knows nothing of: (address, end, first bytes), by address.

        Their beginnings are read. Those that overlap others, or what is known, are left out.
        """
    def with_entry(self, entry: int) -> UnwindTable:
        """This table and the place where a program begins, of which it knows nothing: that is where stacks end."""
    def covers(self, address: int) -> bool:
        """Whether anything is known of an instruction."""
    def uncovered(self, symbols: bytes) -> list[int]:
        """Which entries of an ELF symbol table begin where nothing is known, by their indices."""
    @staticmethod
    def load(bytes: bytes) -> UnwindTable | None:
        """What save() gave; None if these bytes are no table of this version, or damaged."""
    def save(self) -> bytes: ...
    @property
    def number(self) -> int:
        """Of no other table, in this process."""
    def for_kernel(self) -> tuple[int, bytes, bytes, bytes]:
        """The number of its first page; its pages, rows and rules, as bytes for the maps of bpf/abi.h."""
    def find(self, address: int) -> dict[str, str | bool]:
        """The rule at an address in words like readelf's: "CFA", "ra", "rbx", ..., and whether it is a signal frame."""
    @property
    def losses(self) -> dict[str, int]:
        """What was met and could not be used: functions, expressions, overlaps."""
    @property
    def bytes(self) -> int:
        """Of memory."""
    def __len__(self) -> int: ...

class CodeMap:
    """Where modules lie in a process, and their tables."""

    @property
    def tables(self) -> list[UnwindTable]:
        """Those of its code, one for each mapping."""

    def __init__(self) -> None: ...
    def add(
        self, begin: int, end: int, bias: int, module: int, table: UnwindTable | None = None, *, anonymous: bool = False
    ) -> None:
        """Lay a module's code over whatever was there. bias: what is added to the module's own addresses; anonymous: it
        is in no file."""
    def add_eval_loop(self, begin: int, end: int) -> None:
        """Tell where the interpreter's eval loop is."""
    def add_stack_base(self, begin: int, end: int) -> None:
        """Tell where a function is whose frame is its stack's outermost."""

def rule_of_code(code: bytes) -> dict[str, str | bool] | None:
    """What code without unwind information tells of its caller, in the words of UnwindTable.find; None: nothing."""

def unwind(
    memory: Memory, code: CodeMap, registers: RegisterSet
) -> tuple[list[tuple[int, int, int, bool]], str | None]:
    """The native stack of a thread that stands still, innermost first: pc, stack pointer, CFA (0: not known), whether
    the pc is a return address; and the loss that ended it before the outermost frame."""

def give_large_blocks_back() -> None:
    """From now on, give memory of a megabyte and more back to the kernel as soon as it is freed."""

def demangle(symbol: str) -> str | None:
    """A C++ name as people write it; None for what is none, and for those of more than 65,536 characters."""

def symbols_holding(table: bytes, addresses: Sequence[int]) -> list[int]:
    """Which entries of an ELF symbol table hold one of some addresses, by their indices; `addresses`: in order."""

def kernel_stack(pid: int, tid: int) -> list[str] | None:
    """Where a blocked thread is in the kernel, innermost first, as "vfs_read" or "ext4_read [ext4]"; None: the kernel
    tells that only to root, or it has ended."""

def probe_cpu_clock(tid: int, user_only: bool) -> int:
    """Open a CPU clock of a thread and close it: 0, or the errno with which the kernel refuses."""
