"""Names for the native frames of a dump, as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from weft.limits import many_files
from weft.sample import Frame, FrameKind
from weft.symbolize.debuginfod import Debuginfod
from weft.symbolize.problems import warnings_of
from weft.symbolize.resolver import Resolver
from weft.target.code import CodeBook
from weft.target.target import Target

_TABLES_TIME = 30.0  # seconds for unwind tables, of all modules


@contextmanager
def code_of(target: Target) -> Iterator[TargetCode]:
    """Have the code of a target at hand, with the files of its modules."""
    with many_files(), closing(CodeBook()) as book, closing(TargetCode(target, book)) as code:
        yield code


class TargetCode:
    """The code of one target, and the names of its functions."""

    def __init__(self, target: Target, book: CodeBook) -> None:
        self._book = book
        self.map = self._book.map_of(target, within_s=_TABLES_TIME)
        self._servers = Debuginfod()
        self._resolvers: dict[int, Resolver] = {}
        self._known: dict[tuple[int, int], list[Frame]] = {}

    def close(self) -> None:
        """Close what was opened to name functions."""
        for resolver in self._resolvers.values():
            resolver.close()

    def functions(self, module: int, address: int) -> list[Frame]:
        """Return the functions that lie at an address, innermost first."""
        if (module, address) not in self._known:
            self._known[module, address] = self._functions(module, address)
        return self._known[module, address]

    def warnings(self) -> list[str]:
        """Return what could not be read of the modules that functions were asked of, a line each."""
        return warnings_of(self._book.modules[number] for number in self._resolvers) + self._servers.warnings

    def _functions(self, module: int, address: int) -> list[Frame]:
        if module not in self._book.modules:
            return [Frame(FrameKind.NATIVE, f"{address:#x}", "", 0)]
        if module not in self._resolvers:
            self._resolvers[module] = Resolver(self._book.modules[module], self._servers)
        return self._resolvers[module].at(address)[::-1]
