"""The functions at an address of a module."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import ExitStack, suppress
from typing import Any

from weft import cache
from weft.sample import NO_FLAGS, Frame, FrameFlag, FrameKind
from weft.symbolize.cython import CythonModule
from weft.symbolize.debuginfod import Debuginfod
from weft.symbolize.files import files_of, has_lines
from weft.symbolize.machinery import is_machinery
from weft.symbolize.names import readable
from weft.symbolize.unnamed import Unnamed, stubs
from weft.target.code import CodeModule
from weft.target.elf import ElfError, ElfFile

_KIND = "symbols"
# "py::FUNCTION:FILE": a trampoline of a Python frame, which is told itself (Python/perf_trampoline.c).
_TRAMPOLINE = "py::"
_MAX_INLINED = 64  # functions at one address
_NAMELESS = "[inlined]"  # dwz has moved its name into a file that many share (.gnu_debugaltlink), which is not read

_Function = tuple[int, int, bytes]  # address, end, name


class Resolver:
    """Answers for one module. What it cannot tell, it tells by its address."""

    def __init__(self, module: CodeModule, servers: Debuginfod | None = None) -> None:
        """Read the module's symbols, and note in it what cannot be read; `servers`: asked for what is not here."""
        self._module = module
        self._functions: list[_Function] = []
        self._lines: Any = None  # a symbolic.SymCache
        self._cython = CythonModule(module.path)
        self._unnamed: Unnamed | None = None
        with ExitStack() as opened:
            files = files_of(module, servers, opened)
            if not files and not module.jit:
                why = "its file cannot be had" if module.table else "its process ended before it was read"
                module.problems.append(f"its functions have no names: {why}")
            self._read_functions(files)
            if with_lines := next((file for file in reversed(files) if has_lines(file)), None):
                self._lines = _lines_of(module, with_lines)

    def _read_functions(self, files: list[ElfFile]) -> None:
        functions: dict[tuple[int, bytes], int] = {}
        for file in files:
            try:
                functions |= {(address, name): size for address, size, name in file.functions() if size}
            except ElfError as error:
                self._module.problems.append(f"the symbols in {file.path} cannot be read: {error}")
        with suppress(ElfError):  # what is missing is told by address, as it would be without
            for file in files[:1]:
                functions |= {(address, name): size for address, size, name in stubs(file)}
            if files and not any(file.section(".symtab") for file in files):
                self._unnamed = Unnamed(files[0])
        self._functions = sorted((address, address + size, name) for (address, name), size in functions.items())
        if self._module.jit:
            self._functions = self._module.jit.functions()
        self._begins = [address for address, _, _ in self._functions]

    def at(self, address: int) -> list[Frame]:
        """Return the function that the address lies in, and those inlined into it there, outermost first."""
        symbol = self._symbol(address)
        places = self._lines.lookup(address)[:_MAX_INLINED] if self._lines else []
        if not places:
            unnamed = self._unnamed.name(address) if self._unnamed and not symbol else None
            return self._cython([self._frame(symbol or unnamed or f"{address:#x}")])
        # The outermost name comes from a sized symbol: a SymCache can name the .cold part of another function.
        frames = [
            self._frame(readable(place.symbol) or _NAMELESS, place.full_path or "", place.line)
            for place in reversed(places)
        ]
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
        return readable(found[2].decode("utf-8", "backslashreplace")) if found else None


def _lines_of(module: CodeModule, file: ElfFile) -> Any:
    """Return what a file with debug information says of lines, kept by build-id; None if it cannot be read."""
    from symbolic.debuginfo import Archive
    from symbolic.exceptions import SymbolicError
    from symbolic.symcache import SymCache

    place = cache.cache_path(_KIND, module.build_id) if module.build_id else None
    if place:
        with suppress(SymbolicError, OSError):
            kept = SymCache.open(str(place))  # type: ignore[no-untyped-call]
            if kept.is_latest_version:
                return kept
    try:
        made = Archive.open(file.own_path).get_object(arch="x86_64").make_symcache()
    except (SymbolicError, LookupError) as error:
        reason = str(error).rpartition("\n")[2].strip().removeprefix("caused by: ")
        module.problems.append(f"the debug information in {file.path} cannot be read: {reason}")
        return None
    if module.build_id:
        cache.keep(_KIND, module.build_id, made.open_stream().read())  # type: ignore[no-untyped-call]
    return made
