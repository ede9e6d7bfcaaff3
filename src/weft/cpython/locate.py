"""Finding the CPython runtime in a process, live or dead.

The module that holds it may have any name: python itself, libpython, a program that embeds either. In order:

1. `_PyRuntime` (3.7 on) or `_PyThreadState_Current` (before) in the dynamic symbols of each mapped module, read from
   memory through the hash table, so that no file is needed;
2. .symtab or the section .PyRuntime (3.10 on) of the modules' files;
3. for what is stripped of both, writable memory (scan.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from weft.cpython.check import NotReadyError, prove
from weft.cpython.current_state import current_state_offset
from weft.cpython.debug_offsets import debug_offsets_version, layout_from_debug_offsets
from weft.cpython.layout import Layout, RuntimeAddresses, Source, Version
from weft.cpython.scan import find_heads, find_runtimes, find_version
from weft.cpython.sources import layouts
from weft.errors import LayoutError, MemoryReadError, NotPythonError
from weft.target.elf import ElfError
from weft.target.image import Image
from weft.target.maps import Mapping, modules
from weft.target.memory import Memory, read_u32, read_u64
from weft.target.process import Process
from weft.target.target import Target

_OLDEST, _NEWEST = (2, 7), (3, 15)

# Static symbols of 2.7 and 3.6: the head of the interpreters (Python/pystate.c), the GIL (Python/ceval.c: a pointer to
# a lock; Python/ceval_gil.h: conditions and mutexes side by side).
_LOCK_27 = "interpreter_lock"
_GIL_36 = ("gil_cond", "gil_mutex", "switch_cond", "switch_mutex")
_STATIC = ("_PyRuntime", "_PyThreadState_Current", "interp_head", _LOCK_27, *_GIL_36)
_DYNAMIC = ("_PyRuntime", "_PyThreadState_Current")
_READY_TIME = 5.0  # seconds that a process may take to begin its Python
_READY_PAUSE = 0.02
_CONDITION_SIZE = 48  # bytes of a pthread_cond_t, the larger of the two, on 64-bit glibc and musl


class Runtime(NamedTuple):
    """CPython in a process: what it is, where its roots are, and the proven layout."""

    version: Version
    addresses: RuntimeAddresses
    layout: Layout
    layout_source: str  # "debug offsets", "DWARF", "table 3.11.7"
    module: str  # path of the ELF file that holds it, in the target's mount namespace

    def __str__(self) -> str:
        free = "t" if self.layout.free_threaded else ""
        return f"CPython {self.version}{free} ({self.layout_source})"


class _Candidate(NamedTuple):
    """A module that may hold the runtime, and the addresses of the symbols that say so."""

    image: Image
    symbols: dict[str, int]

    @property
    def runtime(self) -> int:
        return self.symbols.get("_PyRuntime", 0)


def find_runtime(target: int | Target) -> Runtime:
    """Find CPython in a process and prove its layout. The process runs on.

    NotPythonError: there is none (yet: a program may still be loading it). NotReadyError: it is there, but nothing can
    be proven at this instant; try again. LayoutError: it is there and cannot be read, one line says why. Also
    NoSuchProcessError, PermissionDeniedError, TargetExitedError.
    """
    if isinstance(target, int):
        target = Process(target)
    mappings = target.maps()
    failure: LayoutError | NotReadyError | None = None
    for candidate in _candidates(target, mappings):
        try:
            return _prove_candidate(target, candidate, mappings)
        except NotReadyError as error:
            failure = failure or error
        except LayoutError as error:
            failure = error if not isinstance(failure, LayoutError) else failure
        except MemoryReadError as error:
            failure = failure or LayoutError(f"CPython in {candidate.image.module.path!r} cannot be read: {error}")
    if failure:
        raise failure
    raise NotPythonError(f"{target} runs no Python that weft knows")


def wait_for_runtime(process: Process) -> Runtime:
    """Find CPython in a process that may just have started. As find_runtime(), and LayoutError if it never begins."""
    deadline = time.monotonic() + _READY_TIME
    while True:
        try:
            return find_runtime(process)
        except NotReadyError as error:
            if time.monotonic() > deadline:
                raise LayoutError(f"{process} has not begun to run Python: {error}") from error
            time.sleep(_READY_PAUSE)


def _candidates(target: Target, mappings: list[Mapping]) -> Iterator[_Candidate]:
    images = []
    found = False
    for image in _images(target, mappings):
        images.append(image)
        symbols = image.symbols(_DYNAMIC)
        if symbols:
            found = True
            yield _Candidate(image, symbols)
    if found:
        return
    for image in images:
        symbols = _file_symbols(target, image, _STATIC)
        if symbols.keys() & set(_DYNAMIC):
            found = True
            yield _Candidate(image, symbols)
    for image in images if not found else ():
        for runtime in find_runtimes(image):
            yield _Candidate(image, {"_PyRuntime": runtime})
        if find_version(image):
            yield _Candidate(image, {})


def _images(target: Target, mappings: list[Mapping]) -> Iterator[Image]:
    """Yield the modules that are ELF images: the program first, as symbols bind, then likely names."""
    program = target.executable
    likely = ("libpython", "python")
    names = {module: module.path.rpartition("/")[2] for module in modules(mappings)}
    for module in sorted(names, key=lambda m: (m.path != program, not names[m].startswith(likely))):
        with suppress(ElfError, MemoryReadError):
            yield Image(target.memory, module)


def _file_symbols(target: Target, image: Image, names: tuple[str, ...]) -> dict[str, int]:
    """Return the addresses of symbols that only the module's file tells; empty if there is no file."""
    file = target.open_module(image)
    if file is None:
        return {}
    with file:
        try:
            symbols = file.symbols(names)
        except ElfError:
            symbols = {}
        section = next((s for s in file.sections if s.name == ".PyRuntime" and s.address), None)
        if section:
            symbols.setdefault("_PyRuntime", section.address)
    return {name: image.bias + address for name, address in symbols.items()}


def _prove_candidate(target: Target, candidate: _Candidate, mappings: list[Mapping]) -> Runtime:
    version = _version(target.memory, candidate)
    if version is None:
        raise NotReadyError(f"the CPython in {candidate.image.module.path!r} has not begun")
    if not _OLDEST <= version[:2] <= _NEWEST or (3, 0) <= version[:2] < (3, 6):
        raise LayoutError(f"CPython {version} is not known: weft reads 2.7 and 3.6 to 3.15")
    if version < (3, 7):
        candidate = _with_statics(target, candidate)
    failure: LayoutError | None = None
    for source in _sources(target, candidate, version):
        for addresses, layout in _addresses(target, candidate, source, mappings):
            try:
                prove(target.memory, layout, addresses, lambda: target.namespace_ids().values())
            except LayoutError as error:
                failure = failure or error
            else:
                if version >= (3, 12):
                    offset = current_state_offset(target, candidate.image, layout, addresses.interpreters_head)
                    addresses = addresses._replace(current_state=offset)
                return Runtime(version, addresses, layout, source.name, candidate.image.module.path)
    raise failure or LayoutError(f"CPython {version} is there, but nothing in its memory looks like its interpreters")


def _version(memory: Memory, candidate: _Candidate) -> Version | None:
    """Return the version: from the debug offsets (3.13 on), Py_Version (3.11 on), or the text of Py_GetVersion()."""
    if candidate.runtime:
        version = debug_offsets_version(memory, candidate.runtime)
        if version:
            return version
        number = candidate.image.symbols(("Py_Version",)).get("Py_Version")
        if number:
            return Version.from_hex(read_u32(memory, number))
    return find_version(candidate.image)


def _with_statics(target: Target, candidate: _Candidate) -> _Candidate:
    """Add the static symbols of 2.7 and 3.6, which only .symtab has."""
    statics = _file_symbols(target, candidate.image, _STATIC)
    return _Candidate(candidate.image, statics | candidate.symbols)


def _sources(target: Target, candidate: _Candidate, version: Version) -> Iterator[Source]:
    if version >= (3, 13) and candidate.runtime:
        with suppress(LayoutError):  # the table is damaged or of another form: the layout may still be had
            yield layout_from_debug_offsets(target.memory, candidate.runtime)
    yield from layouts(target, candidate.image, version)


def _addresses(
    target: Target, candidate: _Candidate, source: Source, mappings: list[Mapping]
) -> Iterator[tuple[RuntimeAddresses, Layout]]:
    """Yield the roots that may be, and the layout with what only the process tells: the size of the GIL before 3.7."""
    layout, runtime, image = source.layout, source.runtime, candidate.image
    if runtime is None:
        gil, size = _static_gil(target, candidate.symbols)
        current = candidate.symbols.get("_PyThreadState_Current", 0)
        known = candidate.symbols.get("interp_head")
        for head in [known] if known else find_heads(image, layout, mappings):
            yield (
                RuntimeAddresses(interpreters_head=head, current_thread=current, gil=gil),
                replace(layout, gil_size=size),
            )
        return
    offset = runtime.interpreters_head
    starts = [candidate.runtime] if candidate.runtime else [h - offset for h in find_heads(image, layout, mappings)]
    for start in starts:
        yield (
            RuntimeAddresses(
                interpreters_head=start + offset,
                current_thread=start + runtime.current_thread if runtime.current_thread else 0,
                gil=start + runtime.gil if runtime.gil else 0,
            ),
            layout,
        )


def _static_gil(target: Target, symbols: dict[str, int]) -> tuple[int, int | None]:
    """Return the address and size in bytes of the GIL of 2.7 or 3.6; 0 and None if no symbol tells."""
    if _LOCK_27 in symbols:
        # PyThread_allocate_lock (Python/thread_pthread.h): a sem_t on the heap, once there are threads.
        return read_u64(target.memory, symbols[_LOCK_27]), 32
    if all(name in symbols for name in _GIL_36):
        parts = sorted(symbols[name] for name in _GIL_36)
        return parts[0], parts[-1] + _CONDITION_SIZE - parts[0]
    return 0, None
