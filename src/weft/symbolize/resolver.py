"""The functions at an address of a module."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property, partial
from typing import Any

from weft.readers import ReaderError
from weft.sample import NO_FLAGS, Frame, FrameFlag, FrameKind
from weft.symbolize.cython import CythonModule
from weft.symbolize.debuginfod import Debuginfod
from weft.symbolize.dwarf import DebugInformation
from weft.symbolize.files import files_of, has_lines, shared_file
from weft.symbolize.functions import Functions
from weft.symbolize.lines import lines_of
from weft.symbolize.machinery import is_machinery
from weft.symbolize.names import readable
from weft.symbolize.unnamed import STUB, Unnamed, stub_name, stub_ranges, stubs
from weft.target.code import CodeModule
from weft.target.elf import ElfError

# "py::FUNCTION:FILE": a trampoline of a Python frame (Python/perf_trampoline.c). "py::jit:executor": 3.15 JIT code.
_OF_CPYTHON = "py::"
_MAX_INLINED = 64  # functions at one address
_NAMELESS = "[inlined]"  # dwz has moved its name into a file that cannot be had


class Resolver:
    """Answers for one module, until it is closed. What it cannot tell, it tells by its address."""

    def __init__(
        self, module: CodeModule, servers: Debuginfod | None = None, addresses: Collection[int] | None = None
    ) -> None:
        """Read the module's symbols, and note in it what cannot be read.

        servers: asked for what is not here. addresses: all that will be asked for, if that is known, to save memory.
        """
        self._module = module
        self._addresses = addresses
        self._functions = Functions(addresses)
        self._lines: Any = None  # a symbolic.SymCache
        self._rest: DebugInformation | None = None  # what that leaves out
        self._has_dwo = self._has_nameless = False
        self._cython = CythonModule(module.path)
        self._opened = ExitStack()
        self._files = files_of(module, servers, self._opened)
        if not self._files and not module.jit:
            why = "its file cannot be had" if module.is_read else "its process ended before it was read"
            module.problems.append(f"its functions have no names: {why}")
        self._read_functions()
        if with_lines := next((file for file in reversed(self._files) if has_lines(file)), None):
            self._lines = lines_of(module, with_lines)
            if self._lines:
                shared = shared_file(module, servers, with_lines, self._opened)
                self._rest = self._opened.enter_context(closing(DebugInformation(with_lines, shared)))

    def close(self) -> None:
        """Close the files that are not the module's own, and end what reads them."""
        self._opened.close()

    def _read_functions(self) -> None:
        for file in self._files:
            with self._noting(f"the symbols in {file.path}"):
                self._functions.add(file.function_symbols(self._functions.wanted), file.name_at)
        if self._module.jit:
            self._functions.add_named((begin, end - begin, name) for begin, end, name in self._module.jit.functions())

    @cached_property
    def _stub_ranges(self) -> list[range]:
        return stub_ranges(self._files[0]) if self._files else []

    @cached_property
    def _stubs(self) -> Functions:
        """The entries of the procedure linkage table."""
        functions = Functions(self._addresses)
        with self._noting("the names of what it calls in other modules"):
            functions.add(stubs(self._files[0]), partial(stub_name, self._files[0]))
        return functions

    @cached_property
    def _unnamed(self) -> Unnamed | None:
        """What is known of functions without symbols, where there are no symbols of all of them."""
        with self._noting("names for functions without symbols"):
            if self._files and not any(file.section(".symtab") for file in self._files):
                return Unnamed(self._files[0])
        return None

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        """Note in the module what cannot be read."""
        try:
            yield
        except ElfError as error:
            self._module.problems.append(f"{what} cannot be read: {error}")

    def at(self, address: int) -> list[Frame]:
        """Return the function that the address lies in, and those inlined into it there, outermost first."""
        symbol = self._symbol(address)
        places = self._places(address)
        if not any(place.line for place in places):  # a SymCache knows the symbols of the file with lines, too
            symbol = symbol or (readable(places[0].symbol) if places else None)
            unnamed = self._unnamed.name(address) if self._unnamed and not symbol else None
            place = self._line(address) if not (symbol and symbol.endswith(STUB)) else ("", 0)
            return self._cython([self._frame(symbol or unnamed or f"{address:#x}", *place)])
        symbols = [place.symbol for place in places]
        if not all(symbols):
            symbols = self._names(address, symbols)
        frames = [
            self._frame(readable(name) or _NAMELESS, place.full_path or "", place.line)
            for name, place in zip(symbols, places, strict=True)
        ]
        # The outermost name comes from a sized symbol: a SymCache can name the .cold part of another function.
        if symbol:
            frames[0] = self._frame(symbol, frames[0].file if frames[0].line else "", frames[0].line)
        return self._cython(frames)

    def _line(self, address: int) -> tuple[str, int]:
        """Return the file and line of code whose functions have no entries in the debug information."""
        try:
            found = self._rest.line(address) if self._rest else None
            if self._rest and found and not self._has_dwo and (dwo := self._rest.dwo(address)):
                self._has_dwo = True
                self._module.problems.append(f"its inlined functions are not told: {dwo} and its like are not read")
        except ReaderError as error:
            self._give_up(error)
            found = None
        return found or ("", 0)

    def _names(self, address: int, known: list[str]) -> list[str]:
        """Return the symbols of the functions at an address, those that dwz has moved into another file too."""
        try:
            found = self._rest.names(address) if self._rest else []
        except ReaderError as error:
            self._give_up(error)
            return known
        if len(found) == len(known):
            known = [name or other for name, other in zip(known, found, strict=True)]
        if not all(known[1:]) and not self._has_nameless:
            self._has_nameless = True
            self._module.problems.append(
                "some inlined functions have no names: dwz may have moved them to a file that is not here"
            )
        return known

    def _give_up(self, error: ReaderError) -> None:
        self._rest = None
        self._module.problems.append(f"some of its debug information cannot be read: {error}")

    def _places(self, address: int) -> list[Any]:
        """Return what the debug information tells of an address, outermost first."""
        if self._lines is None:
            return []
        from symbolic.exceptions import SymbolicError  # lines.py has imported it, one thread at a time

        try:
            return list(reversed(self._lines.lookup(address)[:_MAX_INLINED]))
        except SymbolicError as error:
            self._module.problems.append(f"its lines cannot be read: {error}")
            self._lines = None
            return []

    def _frame(self, function: str, file: str = "", line: int = 0) -> Frame:
        # Trampolines of Python frames, which are told themselves, and what evaluates them.
        own = self._module.jit is not None and function.startswith(_OF_CPYTHON)
        hidden = own or is_machinery(function, interpreter=self._module.is_interpreter)
        flags = FrameFlag.MACHINERY if hidden else NO_FLAGS
        path = self._module.path
        return Frame(FrameKind.NATIVE, function, file if line else path, line, flags=flags, module=path)

    def _symbol(self, address: int) -> str | None:
        """Return the name of the smallest function that holds the address."""
        name = None
        with self._noting("a symbol's name"):
            name = self._functions.at(address)
            if not name and any(address in place for place in self._stub_ranges):
                name = self._stubs.at(address)
        return readable(name.decode("utf-8", "backslashreplace")) if name else None
