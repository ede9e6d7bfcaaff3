"""Where a thread keeps the address of the thread state that it has attached.

The variable, `_Py_tss_tstate` (Python/pystate.c, 3.12 on), is thread-local. A module that was there when the program
began has its variables at the same distance from the thread pointer in each thread, which one thread's table of modules
tells (glibc's dtv, sysdeps/x86_64/nptl/tls.h).
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from weft.cpython.layout import Layout
from weft.errors import MemoryReadError
from weft.target.elf import ElfError
from weft.target.image import Image
from weft.target.memory import Memory, read_u64
from weft.target.target import Target

_VARIABLE = "_Py_tss_tstate"
_PROGRAM = 1  # the number that the program's own storage has
_MOST_MODULES = 1 << 16
_MOST_STATIC = 1 << 16  # bytes below the thread pointer; glibc keeps some 2 KB free for what comes later


class _Variable(NamedTuple):
    """What a module's file tells of the variable."""

    inside: int  # bytes from the begin of the module's thread-local storage
    number_slot: int | None  # linked address of the word that tells the module's number


_variables: dict[str, _Variable] = {}  # by build-id: many processes run the same build
_MAX_BUILDS = 1 << 10  # that are remembered: a hostile program may have any number


def current_state_offset(target: Target, image: Image, layout: Layout, interpreters_head: int) -> int:
    """Return the offset from the thread pointer; 0: it is not known (no symbols, or a library that was loaded late)."""
    with suppress(ElfError, MemoryReadError):
        variable = _variables.get(image.build_id or "") or _variable(target, image)
        if variable is None:
            return 0
        module = _module_number(target, image, variable)
        thread = _a_thread(target.memory, layout, interpreters_head)
        if not 0 < module < _MOST_MODULES or not thread:
            return 0
        modules = read_u64(target.memory, thread + 8)
        offset = read_u64(target.memory, modules + 16 * module) + variable.inside - thread
        if -_MOST_STATIC < offset < 0:
            return offset
    return 0


def _variable(target: Target, image: Image) -> _Variable | None:
    """Return what the file tells; None if it cannot be had, or has no symbols. ElfError."""
    file = target.open_module(image)
    if file is None:
        return None
    with file:
        inside = file.symbols((_VARIABLE,)).get(_VARIABLE)
        if inside is None:
            return None
        variable = _Variable(inside, next(file.own_storage_slots(), None))
    if image.build_id and len(_variables) < _MAX_BUILDS:
        _variables[image.build_id] = variable
    return variable


def _module_number(target: Target, image: Image, variable: _Variable) -> int:
    """Return the number that the dynamic linker has given to the module's storage; 0: it is not known."""
    if variable.number_slot is not None:
        return read_u64(target.memory, image.bias + variable.number_slot)
    return _PROGRAM if image.module.path == target.executable else 0


def _a_thread(memory: Memory, layout: Layout, interpreters_head: int) -> int:
    """Return the thread pointer of a thread that Python knows; 0: it knows none."""
    interpreter = read_u64(memory, interpreters_head)
    state = read_u64(memory, interpreter + layout.interp_threads_head)
    return read_u64(memory, state + layout.thread_pthread) if state else 0
