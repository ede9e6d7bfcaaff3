"""The functions at an address of a module."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from functools import lru_cache
from typing import Any

from weft import cache
from weft._native import demangle
from weft.sample import NO_FLAGS, Frame, FrameFlag, FrameKind
from weft.symbolize.cython import CythonModule
from weft.symbolize.debugfiles import debug_file
from weft.symbolize.machinery import is_machinery
from weft.target.code import CodeModule
from weft.target.elf import ElfError, ElfFile

_KIND = "symbols"
# "py::FUNCTION:FILE": a trampoline of a Python frame, which is told itself (Python/perf_trampoline.c).
_TRAMPOLINE = "py::"
_MAX_INLINED = 64  # functions at one address
_MAX_NAME = 4096  # characters

_Function = tuple[int, int, bytes]  # address, end, name


class Resolver:
    """Answers for one module. What it cannot tell, it tells by its address."""

    def __init__(self, module: CodeModule, roots: tuple[str, ...] = ("",)) -> None:
        """Read the module's symbols; `roots` as of debug_file()."""
        self._module = module
        self._functions: list[_Function] = []
        self._lines: Any = None  # a symbolic.SymCache
        self._cython = CythonModule(module.path)
        if module.jit:
            self._functions = module.jit.functions()
            self._begins = [address for address, _, _ in self._functions]
        if module.file is None:
            return
        files = [module.file]
        if separate := debug_file(module.file, module.path, roots):
            files.append(separate)
        functions: dict[tuple[int, bytes], int] = {}
        for file in files:
            with suppress(ElfError):
                functions |= {(address, name): size for address, size, name in file.functions() if size}
        self._functions = sorted((address, address + size, name) for (address, name), size in functions.items())
        self._begins = [address for address, _, _ in self._functions]
        self._lines = _lines_of(module, files[-1])
        if separate:
            separate.close()

    def at(self, address: int) -> list[Frame]:
        """Return the function that the address lies in, and those inlined into it there, outermost first."""
        symbol = self._symbol(address)
        places = self._lines.lookup(address)[:_MAX_INLINED] if self._lines else []
        if not places:
            return self._cython([self._frame(symbol or f"{address:#x}")])
        # The outermost name comes from a sized symbol: a SymCache can name the .cold part of another function.
        frames = [self._frame(_clean(place.symbol), place.full_path or "", place.line) for place in reversed(places)]
        if symbol:
            frames[0] = self._frame(symbol, frames[0].file if frames[0].line else "", frames[0].line)
        return self._cython(frames)

    def _frame(self, function: str, file: str = "", line: int = 0) -> Frame:
        trampoline = self._module.jit is not None and function.startswith(_TRAMPOLINE)
        hidden = trampoline or is_machinery(function, interpreter=self._module.is_interpreter)
        flags = FrameFlag.MACHINERY if hidden else NO_FLAGS
        path = self._module.path
        return Frame(FrameKind.NATIVE, function, file if line else path, line, flags=flags, module=path)

    def _symbol(self, address: int) -> str | None:
        """Return the name of the smallest function that holds the address."""
        at = bisect_right(self._begins, address) if self._functions else 0
        found: _Function | None = None
        for begin, end, name in reversed(self._functions[max(0, at - 8) : at]):
            if address < end and (found is None or (end - begin, name) < (found[1] - found[0], found[2])):
                found = begin, end, name
        return _clean(found[2].decode("utf-8", "backslashreplace")) if found else None


@lru_cache(maxsize=1 << 14)
def _clean(symbol: str) -> str:
    """A name as people write it."""
    name = symbol[:_MAX_NAME]
    return demangle(name) if name.startswith(("_Z", "_R")) else name


def _lines_of(module: CodeModule, file: ElfFile) -> Any:
    """Return what a file with debug information says of lines, kept by build-id; None if it has none."""
    if file.section(".debug_line") is None and file.section(".zdebug_line") is None:
        return None
    from symbolic.debuginfo import Archive
    from symbolic.exceptions import SymbolicError
    from symbolic.symcache import SymCache

    place = cache.cache_path(_KIND, module.build_id) if module.build_id else None
    if place:
        with suppress(SymbolicError, OSError):
            kept = SymCache.open(str(place))  # type: ignore[no-untyped-call]
            if kept.is_latest_version:
                return kept
    with suppress(SymbolicError, LookupError):
        made = Archive.open(file.own_path).get_object(arch="x86_64").make_symcache()
        if module.build_id:
            cache.keep(_KIND, module.build_id, made.open_stream().read())  # type: ignore[no-untyped-call]
        return made
    return None
