"""Tells what symbolic leaves out of debug information, read with pyelftools: python dwarf_reader.py FILE [SHARED].

Run by dwarf.py: each line of stdin asks [WHAT, ADDRESS], each of stdout answers [TOLD, null] or [null, WHY], in JSON.
What is left out are the lines of functions without entries, which clang's -g1 does without and split DWARF has
elsewhere, and the names that dwz has moved into another file. Reading is slow: some 30,000 entries or lines a second.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elftools.construct.lib.container import Container
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE
    from elftools.dwarf.dwarfinfo import DWARFInfo
    from elftools.dwarf.lineprogram import LineProgram, LineState

_MAX_SIZE = 1 << 29  # bytes of it, unpacked; pyelftools holds all of that in memory
_MAX_UNIT = 1 << 22  # bytes of the entries of one unit
_MAX_LINES = 1 << 21  # bytes of the lines of all units that are asked for: those take some 20 seconds
_LAST_LINE = (1 << 32) - 1  # its number; a damaged line program may count beyond it, or below 0
_MAX_DEPTH = 64  # of functions and blocks in functions
_MAX_TEXT = 1 << 16  # bytes of a name, or a path
_MAX_HOPS = 8  # from an inlined function to where its name is
_ANY = 1 << 64  # more than any offset
_ORIGINS = ("DW_AT_abstract_origin", "DW_AT_specification")
_NAMES = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name", "DW_AT_name")
_DWO_NAMES = ("DW_AT_dwo_name", "DW_AT_GNU_dwo_name")
_ENTRIES_IN_SHARED = ("DW_FORM_GNU_ref_alt", "DW_FORM_ref_sup4", "DW_FORM_ref_sup8")
_STRINGS_IN_SHARED = ("DW_FORM_GNU_strp_alt", "DW_FORM_strp_sup")
_SCOPES = ("DW_TAG_namespace", "DW_TAG_module")
_WITH_CODE = ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine", "DW_TAG_lexical_block")

_Row = tuple[int, str, int]  # an address, and the file and line from there on; line 0: there is none


class ReadError(Exception):
    """The debug information cannot be read."""


class DwarfFile:
    """A file, and the one into which dwz has moved what it shares with others. All methods: ReadError."""

    def __init__(self, path: str, shared: str | None) -> None:
        """Note the paths; nothing is read before it is asked for."""
        self._path = path
        self._shared_path = shared
        self._rows: dict[int, list[_Row]] = {}  # by the offset of their unit
        self._size_of_rows = 0  # bytes
        self._functions: dict[int, list[tuple[int, int, DIE]]] = {}  # [begin, end), by the same

    def line(self, address: int) -> tuple[str, int] | None:
        """Return the file and line that the code at an address comes from; None if nothing tells that."""
        with _reading():
            unit = self._unit(address)
            if unit is None:
                return None
            if unit.cu_offset not in self._rows:
                self._rows[unit.cu_offset] = self._read_rows(unit)
            rows = self._rows[unit.cu_offset]
            at = bisect_right(rows, address, key=lambda row: row[0]) - 1
            return rows[at][1:] if at >= 0 and 0 < rows[at][2] <= _LAST_LINE else None

    def dwo(self, address: int) -> str | None:
        """Return the name of the .dwo file that alone tells of the functions there; None if this file does."""
        with _reading():
            unit = self._unit(address)
            top = unit.get_top_DIE() if unit else None
            if top is None or top.has_children:  # as clang's -fsplit-dwarf-inlining leaves them here
                return None
            return next((_text(top.attributes[name].value) for name in _DWO_NAMES if name in top.attributes), None)

    def names(self, address: int) -> list[str]:
        """Return the symbols, or else the names, of the functions there, outermost first; "" for unknown ones."""
        with _reading():
            unit = self._unit(address)
            if unit is None:
                return []
            if unit.cu_offset not in self._functions:
                self._functions[unit.cu_offset] = [
                    (begin, end, die) for die in _functions_in(unit.get_top_DIE()) for begin, end in _ranges(unit, die)
                ]
            outermost = [die for begin, end, die in self._functions[unit.cu_offset] if begin <= address < end]
            return [self._name(die) for die in _chain(unit, outermost, address)]

    def _read_rows(self, unit: CompileUnit) -> list[_Row]:
        program = self._dwarf.line_program_for_CU(unit)
        if program is None:
            return []
        self._size_of_rows += program.program_end_offset - program.program_start_offset
        if self._size_of_rows > _MAX_LINES:
            raise ReadError(f"the lines that it has of functions without entries are more than {_MAX_LINES:,} bytes")
        return _rows_of(program, _files_of(unit, program.header))

    @cached_property
    def _dwarf(self) -> DWARFInfo:
        return _open(self._path)

    @cached_property
    def _shared(self) -> DWARFInfo | None:
        return _open(self._shared_path) if self._shared_path else None

    @cached_property
    def _units(self) -> list[tuple[int, int, int]]:
        """The addresses of units [begin, end), and their offsets; gcc tells them in a table, clang with each unit."""
        table = self._dwarf.get_aranges()
        entries = table.entries if table else []
        found = [(entry.begin_addr, entry.begin_addr + entry.length, entry.info_offset) for entry in entries]
        told = {offset for _, _, offset in found}
        for unit in self._dwarf.iter_CUs():
            if unit.cu_offset not in told:
                found += [(begin, end, unit.cu_offset) for begin, end in _ranges(unit, unit.get_top_DIE())]
        return sorted(found)

    def _unit(self, address: int) -> CompileUnit | None:
        at = bisect_right(self._units, (address, _ANY)) - 1
        return self._dwarf.get_CU_at(self._units[at][2]) if at >= 0 and address < self._units[at][1] else None

    def _name(self, die: DIE) -> str:
        for _ in range(_MAX_HOPS):
            if name := next((die.attributes[each] for each in _NAMES if each in die.attributes), None):
                if name.form in _STRINGS_IN_SHARED:
                    return _text(self._shared.get_string_from_table(name.raw_value)) if self._shared else ""
                return _text(name.value)
            origin = next((each for each in _ORIGINS if each in die.attributes), None)
            if origin is None:
                return ""
            if die.attributes[origin].form not in _ENTRIES_IN_SHARED:
                die = die.get_DIE_from_attribute(origin)
            elif self._shared:
                die = self._shared.get_DIE_from_refaddr(die.attributes[origin].raw_value)
            else:
                return ""
        return ""


@contextmanager
def _reading() -> Iterator[None]:
    """Turn what pyelftools raises on damaged files into a ReadError."""
    from elftools.common.exceptions import DWARFError, ELFError

    try:
        yield
    except (
        *(OSError, ELFError, DWARFError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError),
        *(AssertionError, NotImplementedError, RecursionError, MemoryError, struct.error, zlib.error),
    ) as error:
        raise ReadError(str(error) or type(error).__name__) from error


def _open(path: str) -> DWARFInfo:
    from elftools.elf.elffile import ELFFile

    with Path(path).open("rb") as file:
        elf = ELFFile(file)
        sections = [section for section in elf.iter_sections() if section.name.startswith((".debug", ".zdebug"))]
        if any(section.name.startswith(".z") for section in sections):
            raise ReadError("its sections are compressed as they were before 2015, without a bound")
        if sum(section.data_size for section in sections) > _MAX_SIZE:
            raise ReadError(f"it has more than {_MAX_SIZE:,} bytes")
        return elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)


def _rows_of(program: LineProgram, files: Mapping[int, str]) -> list[_Row]:
    states: list[LineState] = []
    sequence: list[LineState] = []
    for entry in program.get_entries():
        if entry.state:
            sequence.append(entry.state)
            if entry.state.end_sequence:
                states += sequence if sequence[0].address else []  # at 0 is what the linker has left out
                sequence = []
    # Where one sequence ends another may begin.
    states.sort(key=lambda state: (state.address, not state.end_sequence))
    return [(state.address, files.get(state.file, ""), 0 if state.end_sequence else state.line) for state in states]


def _files_of(unit: CompileUnit, header: Container) -> dict[int, str]:
    """Return the paths of the files that the lines of a unit come from, by their numbers."""
    top = unit.get_top_DIE().attributes
    begin = Path(_text(top["DW_AT_comp_dir"].value) if "DW_AT_comp_dir" in top else "")
    folders = [begin / _text(folder) for folder in header["include_directory"]]
    first = 0
    if header["version"] < 5:  # up to then both began at 1, and folder 0 was that of the compiler
        folders, first = [begin, *folders], 1
    return {
        number: str(folders[file.dir_index] / _text(file.name))
        for number, file in enumerate(header["file_entry"], first)
        if file.dir_index < len(folders)
    }


def _functions_in(scope: DIE, depth: int = 0) -> Iterator[DIE]:
    """Yield the functions of a unit, and of its namespaces."""
    for die in _children(scope):
        if die.tag == "DW_TAG_subprogram":
            yield die
        elif die.tag in _SCOPES and depth < _MAX_DEPTH:
            yield from _functions_in(die, depth + 1)


def _chain(unit: CompileUnit, candidates: list[DIE], address: int) -> Iterator[DIE]:
    """Yield the functions that hold an address, outermost first."""
    for _ in range(_MAX_DEPTH):
        holds = (die for die in candidates if any(begin <= address < end for begin, end in _ranges(unit, die)))
        here = next(holds, None)
        if here is None:
            return
        if here.tag != "DW_TAG_lexical_block":
            yield here
        candidates = [die for die in _children(here) if die.tag in _WITH_CODE]


def _children(die: DIE) -> Iterator[DIE]:
    last = die.offset
    if die.cu.size > _MAX_UNIT:
        raise ReadError(f"a unit has more than {_MAX_UNIT:,} bytes")
    for child in die.iter_children():
        if child.offset <= last:
            raise ReadError("its entries go round in circles")
        last = child.offset
        yield child


def _ranges(unit: CompileUnit, die: DIE) -> Iterator[tuple[int, int]]:
    """Yield the addresses [begin, end) of the code of an entry, but not what the linker has left out (at 0)."""
    from elftools.dwarf.ranges import RangeEntry

    attributes = die.attributes
    if "DW_AT_ranges" in attributes:
        top = unit.get_top_DIE().attributes
        base = top["DW_AT_low_pc"].value if "DW_AT_low_pc" in top else 0
        lists = unit.dwarfinfo.range_lists()
        for entry in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, unit) if lists else ():
            if not isinstance(entry, RangeEntry):
                base = entry.base_address
                continue
            offset = 0 if entry.is_absolute else base
            if entry.begin_offset + offset:
                yield entry.begin_offset + offset, entry.end_offset + offset
    elif "DW_AT_low_pc" in attributes and "DW_AT_high_pc" in attributes:
        begin, end = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        if begin:
            yield begin, end.value if end.form == "DW_FORM_addr" else begin + end.value


def _text(name: bytes | None) -> str:
    return (name or b"")[:_MAX_TEXT].decode("utf-8", "backslashreplace")


def main() -> None:
    """Answer what is asked, until stdin ends."""
    file = DwarfFile(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
    asks = {"line": file.line, "dwo": file.dwo, "names": file.names}
    for question in sys.stdin:
        what, address = json.loads(question)
        try:
            answer = [asks[what](address), None]
        except ReadError as error:
            answer = [None, str(error)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
