"""The functions of a module, by address: as little of each as can be, since there may be half a million."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable

from weft import _native
from weft.target.elf import LAST_ADDRESS, SYMBOL

_MAX_LOOKED_AT = 64  # functions before an address; of one function a C library has up to twenty names

NameAt = Callable[[int], bytes]  # what reads a name, by its place


def _oddness(name: bytes) -> tuple[bool, int, bytes]:
    """How little a name is the one that people know, of several that a function has.

    The C library has read, __read, __libc_read and, for its own calls, __GI_read.
    """
    return name.startswith(b"__GI_"), len(name) - len(name.lstrip(b"_")), name


class Functions:
    """Columns of where functions begin and end, and where their names are: these are read for what is asked for."""

    def __init__(self, addresses: Collection[int] | None = None) -> None:
        """Have none yet; `addresses`: all that will be asked for, if that is known: no others' functions are kept."""
        self._addresses = None if addresses is None else sorted(addresses)
        self._begins, self._ends, self._places = array("Q"), array("Q"), array("Q")
        self._readers = array("B")  # which of the following reads the name
        self._names_at: list[NameAt] = []
        self._names: dict[tuple[int, int], bytes] = {}  # that were read, by reader and place
        self._is_sorted = True

    def wanted(self, symbols: bytes) -> Iterable[int]:
        """Return which entries of a symbol table hold what will be asked for, by their indices: a quick look."""
        if self._addresses is None:
            return range(len(symbols) // SYMBOL.size)
        return _native.symbols_holding(symbols, self._addresses)

    def add(self, functions: Iterable[tuple[int, int, int]], name_at: NameAt) -> None:
        """Take (address, size, place of the name) of functions; those without a size are left out.

        What the iterable raises leaves those that came before.
        """
        self._is_sorted = False
        self._names_at.append(name_at)
        for address, size, place in functions:
            if size and max(address, place) <= LAST_ADDRESS and self._is_wanted(address, address + size):
                self._begins.append(address)
                self._ends.append(min(address + size, LAST_ADDRESS))
                self._places.append(place)
                self._readers.append(len(self._names_at) - 1)

    def add_named(self, functions: Iterable[tuple[int, int, bytes]]) -> None:
        """Take (address, size, name) of functions."""
        names: list[bytes] = []

        def placed() -> Iterable[tuple[int, int, int]]:
            for place, (address, size, name) in enumerate(functions):
                names.append(name)
                yield address, size, place

        self.add(placed(), names.__getitem__)

    def at(self, address: int) -> bytes | None:
        """Return the name of the smallest function that holds an address, of its names the one that people know.

        What `name_at` raises.
        """
        if not self._is_sorted:
            self._sort()
        end = bisect_right(self._begins, address)
        near = [at for at in range(max(0, end - _MAX_LOOKED_AT), end) if address < self._ends[at]]
        if not near:
            return None
        smallest = min(self._ends[at] - self._begins[at] for at in near)
        names = [self._name(at) for at in near if self._ends[at] - self._begins[at] == smallest]
        return min(names, key=_oddness)

    def _is_wanted(self, begin: int, end: int) -> bool:
        if self._addresses is None:
            return True
        before_end = bisect_left(self._addresses, end)
        return before_end > 0 and self._addresses[before_end - 1] >= begin

    def _name(self, at: int) -> bytes:
        reader, place = key = self._readers[at], self._places[at]
        if (name := self._names.get(key)) is None:
            name = self._names[key] = self._names_at[reader](place)
        return name

    def _sort(self) -> None:
        order = array("I", sorted(range(len(self._begins)), key=self._begins.__getitem__))
        self._begins, self._ends, self._places, self._readers = (
            array(column.typecode, map(column.__getitem__, order))
            for column in (self._begins, self._ends, self._places, self._readers)
        )
        self._is_sorted = True
