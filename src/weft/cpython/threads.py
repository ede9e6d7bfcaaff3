"""Which thread states belong to which thread of the kernel, who waits for a GIL, and what Python calls its threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from weft.cpython.containers import BoundedMemory, Objects
from weft.cpython.layout import Layout, RuntimeAddresses
from weft.cpython.locate import Runtime
from weft.cpython.objects import ObjectError
from weft.errors import MemoryReadError
from weft.target.memory import Memory, read_u32, read_u64

# Where glibc and musl keep the thread id in what pthread_self() returns, x86-64 (check.py names the sources).
_PTHREAD_TID = (0x2D0, 0x30)

_MAX_READS = 1 << 20  # for all names; a thread takes some tens


class ThreadState(NamedTuple):
    """One interpreter's record of a thread; `native_id` counts in the target's PID namespace, 0: not known."""

    address: int
    interpreter: int
    interpreter_id: int
    pthread: int
    native_id: int


def join(
    memory: Memory, states: Iterable[ThreadState], tids: Mapping[int, int], pthreads: Mapping[int, int]
) -> dict[int, list[ThreadState]]:
    """Return the thread states of each thread, by its tid; the one that was entered last comes first.

    `tids`: tid -> the same in the target's own PID namespace; `pthreads`: tid -> pthread_self, where that is known.
    """
    by_inner = {inner: tid for tid, inner in tids.items()}
    by_pthread = {pthread: tid for tid, pthread in pthreads.items()}
    joined: dict[int, list[ThreadState]] = {}
    # Later interpreters are entered from earlier ones.
    for state in sorted(states, key=lambda state: -state.interpreter_id):
        tid = by_pthread.get(state.pthread) or _tid(memory, state, by_inner)
        if tid:
            joined.setdefault(tid, []).append(state)
    return joined


def _tid(memory: Memory, state: ThreadState, by_inner: Mapping[int, int]) -> int:
    """Return the thread that a state's pthread names, or else the state itself; 0 if none does."""
    for offset in _PTHREAD_TID:
        with suppress(MemoryReadError):
            if tid := by_inner.get(read_u32(memory, state.pthread + offset)):
                return tid
    return by_inner.get(state.native_id, 0)


def gil_ranges(memory: Memory, layout: Layout, addresses: RuntimeAddresses, interpreters: Iterable[int]) -> list[range]:
    """Return the addresses that the GILs take: a thread that waits on one of them waits for a GIL. MemoryReadError."""
    if layout.gil_size is None:
        return []
    if layout.interp_gil is None:
        starts = {addresses.gil}
    else:
        starts = {read_u64(memory, interpreter + layout.interp_gil) for interpreter in interpreters}
    return [range(start, start + layout.gil_size) for start in starts if start]


Marks = dict[int, tuple[int, ...]]  # interpreter -> mark_of() its sys.modules


def thread_names(memory: Memory, runtime: Runtime, without_threading: Marks | None = None) -> dict[int, str]:
    """Return what `threading` calls the threads of all interpreters: pthread_self (Thread.ident) -> name.

    Threads that it does not know are not in it. MemoryReadError or ObjectError if the list cannot be read: the program
    runs on meanwhile. without_threading: interpreters that had not imported it, kept from call to call: until they
    import something, nothing is looked for in them.
    """
    objects = Objects(BoundedMemory(memory, _MAX_READS), runtime.layout, runtime.addresses)
    names: dict[int, str] = {}
    for interpreter in objects.interpreters():
        modules = objects.modules(interpreter)
        mark = objects.mark_of(modules)
        if without_threading is not None and without_threading.get(interpreter) == mark:
            continue
        module = objects.lookup(modules, "threading")
        if module:
            active = objects.lookup(objects.field(module), "_active")
            names |= _names(objects, active)
        elif without_threading is not None:
            without_threading[interpreter] = mark
    return names


def named_tids(memory: Memory, names: Mapping[int, str], tids: Mapping[int, int]) -> dict[int, str]:
    """Return tid -> name of what thread_names() gave. `tids`: tid -> the same in the target's own PID namespace."""
    by_inner = {inner: tid for tid, inner in tids.items()}
    found = {_tid(memory, ThreadState(0, 0, 0, pthread, 0), by_inner): name for pthread, name in names.items()}
    found.pop(0, None)
    return found


def _names(objects: Objects, active: int) -> dict[int, str]:
    """Read threading._active, a dict of ident -> Thread."""
    names = {}
    attribute = "_Thread__name" if objects.version < (3, 0) else "_name"
    for ident, thread in objects.dict_items(active) if active else ():
        with suppress(MemoryReadError, ObjectError):  # of a thread that is just ending
            for key, value in objects.attributes(thread):
                if objects.name(key) == attribute:
                    names[_ident(objects, ident)] = objects.name(value)
                    break
    return names


def _ident(objects: Objects, obj: int) -> int:
    """Return the number of an int that holds an address, up to three digits of 30 bits; 2.7 has a plain int."""
    if objects.version < (3, 0):
        return objects.field(obj)
    count = objects.field(obj)
    if objects.version >= (3, 12):
        count >>= 3
    if not 0 < count <= 3:
        raise ObjectError("a thread's ident that is no address")
    data = objects.memory.read(obj + objects.offsets.header + 8, 4 * count)
    return sum(int.from_bytes(data[4 * i : 4 * i + 4], "little") << 30 * i for i in range(count))
