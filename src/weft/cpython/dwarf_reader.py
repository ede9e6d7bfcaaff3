"""Reads the offsets of a layout from DWARF: python dwarf_reader.py FILE. Run by dwarf.py.

The version, [major, minor, ...] in JSON, is on stdin; stdout tells [whether it is free-threaded, the offsets by the
layout's fields, those of a RuntimeLayout or null]. Where that fails, the last line of stderr tells why.

Only the compilation units that hold the structs are parsed. Which these are is told by a short reader of unit names:
parsing the abbreviations of every unit would take most of the time.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DWARFInfo
from elftools.elf.elffile import ELFFile

_Version = tuple[int, ...]  # major, minor, ...

_FRAME = ("_PyInterpreterFrame", "_frame")

# Layout field -> the structs (or typedefs) and the members that it can be, by CPython's names over all versions. The
# first that exists is it.
_MEMBERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "interp_next": (("_is",), ("next",)),
    "interp_id": (("_is",), ("id",)),
    "interp_threads_head": (("_is",), ("threads.head", "tstate_head")),
    "interp_gil": (("_is",), ("ceval.gil",)),
    "interp_code_generation": (("_is",), ("_code_object_generation",)),
    "gil_last_holder": (("_gil_runtime_state",), ("last_holder",)),
    "gil_locked": (("_gil_runtime_state",), ("locked",)),
    "thread_next": (("_ts",), ("next",)),
    "thread_interp": (("_ts",), ("interp",)),
    "thread_frame": (("_ts",), ("current_frame", "frame", "cframe")),
    "thread_cframe": (("_ts",), ("cframe",)),
    "cframe_frame": (("_PyCFrame",), ("current_frame",)),
    "thread_pthread": (("_ts",), ("thread_id",)),
    "thread_native_id": (("_ts",), ("native_thread_id",)),
    "thread_holds_gil": (("_ts",), ("holds_gil",)),
    "thread_chunk": (("_ts",), ("datastack_chunk",)),
    "thread_chunk_top": (("_ts",), ("datastack_top",)),
    "chunk_previous": (("_stack_chunk",), ("previous",)),
    "chunk_size": (("_stack_chunk",), ("size",)),
    "chunk_top": (("_stack_chunk",), ("top",)),
    "chunk_data": (("_stack_chunk",), ("data",)),
    "frame_previous": (_FRAME, ("previous", "f_back")),
    "frame_code": (_FRAME, ("f_executable", "f_code")),
    "frame_instruction": (_FRAME, ("instr_ptr", "prev_instr", "f_lasti")),
    "frame_owner": (_FRAME, ("owner",)),
    "frame_is_entry": (_FRAME, ("is_entry",)),
    "frame_tlbc_index": (_FRAME, ("tlbc_index",)),
    "frame_localsplus": (_FRAME, ("localsplus", "f_localsplus")),
    "code_filename": (("PyCodeObject",), ("co_filename",)),
    "code_name": (("PyCodeObject",), ("co_name",)),
    "code_qualname": (("PyCodeObject",), ("co_qualname",)),
    "code_firstlineno": (("PyCodeObject",), ("co_firstlineno",)),
    "code_linetable": (("PyCodeObject",), ("co_linetable", "co_lnotab")),
    "code_adaptive": (("PyCodeObject",), ("co_code_adaptive",)),
    "code_firsttraceable": (("PyCodeObject",), ("_co_firsttraceable",)),
    "code_version": (("PyCodeObject",), ("co_version",)),
    "code_tlbc": (("PyCodeObject",), ("co_tlbc",)),
    "object_type": (("_object",), ("ob_type",)),
    "type_name": (("_typeobject",), ("tp_name",)),
    "bytes_length": (("PyVarObject",), ("ob_size",)),
    "bytes_data": (("PyBytesObject", "PyStringObject"), ("ob_sval",)),
    "str_length": (("PyASCIIObject",), ("length",)),
    "str_state": (("PyASCIIObject",), ("state",)),
    "str_data_pointer": (("PyUnicodeObject",), ("data",)),
}
_SIZES = {
    "gil_size": "_gil_runtime_state",
    "str_ascii_data": "PyASCIIObject",
    "str_compact_data": "PyCompactUnicodeObject",
}

# The source files whose units hold the structs whole, the best first: ceval.c knows nearly all of them.
_UNITS = (
    *("ceval.c", "pystate.c", "unicodeobject.c", "codeobject.c", "frameobject.c", "bytesobject.c", "stringobject.c"),
    "layout_structs.c",  # of scripts/derive_layout.py
)


def main() -> None:
    """Read the file that the argument names."""
    version = tuple(json.load(sys.stdin))
    with Path(sys.argv[1]).open("rb") as file:
        elf = ELFFile(file)
        if not elf.has_dwarf_info(strict=True):
            sys.exit("there is none")
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        print(json.dumps(_derive(_collect(dwarf, _needed(version)))))


def _needed(version: _Version) -> set[str]:
    needed = {"_is", "_ts", "PyCodeObject", "_object", "_typeobject", "PyVarObject"}
    needed |= {"PyStringObject"} if version[0] == 2 else {"PyBytesObject", "PyASCIIObject", *_UNICODE}
    needed |= {"_PyInterpreterFrame", "_stack_chunk"} if version >= (3, 11) else {"_frame"}
    if version >= (3, 7):
        needed |= {"_PyRuntimeState", "_gil_runtime_state"}
    if (3, 11) <= version < (3, 13):
        needed.add("_PyCFrame")
    return needed


_UNICODE = ("PyCompactUnicodeObject", "PyUnicodeObject")


def _derive(structs: dict[str, DIE]) -> tuple[bool, dict[str, int], dict[str, int | None] | None]:
    """Return whether the build is free-threaded, the layout's offsets, and those of a RuntimeLayout."""
    offsets: dict[str, int] = {}
    for field, (names, members) in _MEMBERS.items():
        at = next(
            (a for n in names if n in structs for m in members if (a := _offset(structs[n], m)) is not None), None
        )
        if at is not None:
            offsets[field] = at
    for field, name in _SIZES.items():
        if name in structs:
            offsets[field] = structs[name].attributes["DW_AT_byte_size"].value
    if "PyASCIIObject" in structs:
        offsets["str_kind_shift"] = _bit_offset(structs["PyASCIIObject"], "state", "kind")
    runtime = None
    if "_PyRuntimeState" in structs:
        state = structs["_PyRuntimeState"]
        head = _offset(state, "interpreters.head")
        if head is None:
            sys.exit("_PyRuntimeState has no interpreters.head")
        # From 3.12 the GIL is found through its interpreter; ceval.gil of the runtime has gone.
        current = _offset(state, "gilstate.tstate_current")
        runtime = {"interpreters_head": head, "current_thread": current, "gil": _offset(state, "ceval.gil")}
    # Include/object.h: a free-threaded build's object names the thread that owns it.
    return _offset(structs["_object"], "ob_tid") is not None, offsets, runtime


def _collect(dwarf: DWARFInfo, needed: set[str]) -> dict[str, DIE]:
    """Return the definitions of the structs by name."""
    found: dict[str, DIE] = {}
    for offset in _unit_order(dwarf):
        for die in dwarf.get_CU_at(offset).get_top_DIE().iter_children():
            if die.tag not in ("DW_TAG_structure_type", "DW_TAG_typedef") or "DW_AT_name" not in die.attributes:
                continue
            name = die.attributes["DW_AT_name"].value.decode("utf-8", "replace")
            if name in needed and name not in found and (definition := _definition(die)) is not None:
                found[name] = definition
        if needed <= found.keys():
            return found
    sys.exit(f"it lacks {', '.join(sorted(needed - found.keys()))}")


def _definition(die: DIE) -> DIE | None:
    """Follow typedefs and qualifiers to a struct that has its members; None if it is only declared here."""
    for _ in range(8):
        if die.tag == "DW_TAG_structure_type":
            return die if "DW_AT_byte_size" in die.attributes else None
        if "DW_AT_type" not in die.attributes:
            return None
        die = die.get_DIE_from_attribute("DW_AT_type")
    return None


def _member(die: DIE, name: str) -> tuple[DIE, int] | None:
    """Return a member and its offset; members of anonymous structs and unions count as the outer one's (C11)."""
    for child in die.iter_children():
        if child.tag != "DW_TAG_member":
            continue
        at = (
            child.attributes["DW_AT_data_member_location"].value
            if "DW_AT_data_member_location" in child.attributes
            else 0
        )
        if "DW_AT_name" in child.attributes:
            if child.attributes["DW_AT_name"].value == name.encode():
                return child, at
            continue
        inner = _member(child.get_DIE_from_attribute("DW_AT_type"), name)
        if inner:
            return inner[0], at + inner[1]
    return None


def _offset(die: DIE, path: str) -> int | None:
    """Return the offset of a member of members ("a.b"), in bytes; None if there is none."""
    total = 0
    for part in path.split("."):
        holder = _underlying(die)
        found = _member(holder, part) if holder is not None else None
        if found is None:
            return None
        die, at = found
        total += at
    return total


def _underlying(die: DIE) -> DIE | None:
    """Return the struct or union that a member (or the struct itself) is; None if it is something else."""
    for _ in range(8):
        if die.tag in ("DW_TAG_structure_type", "DW_TAG_union_type"):
            return die
        if "DW_AT_type" not in die.attributes:
            return None
        die = die.get_DIE_from_attribute("DW_AT_type")
        if die.tag == "DW_TAG_pointer_type":
            return None
    return None


def _bit_offset(die: DIE, outer: str, name: str) -> int:
    """Return the first bit of a bit field in the member `outer`, counted from the lowest bit of its first byte."""
    holder = _member(die, outer)
    state = _underlying(holder[0]) if holder else None
    found = _member(state, name) if state is not None else None
    if found is None:
        sys.exit(f"no bit field {outer}.{name}")
    field, at = found
    attributes = field.attributes
    if "DW_AT_data_bit_offset" in attributes:  # DWARF 4 on: from the beginning of the struct
        return int(attributes["DW_AT_data_bit_offset"].value)
    if "DW_AT_bit_offset" not in attributes:
        return at * 8
    # DWARF 2 and 3 count from the highest bit of the storage unit (DWARF 3, 5.5.6).
    storage = attributes["DW_AT_byte_size"].value * 8
    return int(at * 8 + storage - attributes["DW_AT_bit_offset"].value - attributes["DW_AT_bit_size"].value)


def _unit_order(dwarf: DWARFInfo) -> list[int]:
    """Return the offsets of the units to search: those named above in that order, then partial and unnamed ones."""
    rank = {name: index for index, name in enumerate(_UNITS)}
    ranked = []
    for offset, name in _Units(dwarf).names():
        if name is None:
            ranked.append((len(rank), offset))
        elif (base := name.rpartition("/")[2]) in rank:
            ranked.append((rank[base], offset))
    return [offset for _, offset in sorted(ranked)]


# Sizes in bytes of the forms that come before DW_AT_name in a unit's first entry (DWARF 5, 7.5.6).
_FORM_SIZES = {0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0E: 4, 0x17: 4, 0x19: 0, 0x1F: 4, 0x25: 1, 0x26: 2, 0x1F21: 4}
_DW_AT_NAME, _DW_FORM_STRING, _DW_FORM_STRP, _DW_FORM_LINE_STRP = 0x03, 0x08, 0x0E, 0x1F


class _Units:
    """The names of the units in .debug_info."""

    def __init__(self, dwarf: DWARFInfo) -> None:
        self.info = _contents(dwarf.debug_info_sec)
        self.abbreviations = _contents(dwarf.debug_abbrev_sec)
        self.strings = {
            _DW_FORM_STRP: _contents(dwarf.debug_str_sec),
            _DW_FORM_LINE_STRP: _contents(dwarf.debug_line_str_sec),
        }

    def names(self) -> Iterator[tuple[int, str | None]]:
        """Yield each unit's offset and name; None where it has none that can be read here."""
        at = 0
        while at + 12 <= len(self.info):
            length, version = struct.unpack_from("<IH", self.info, at)
            if length >= 0xFFFFFFF0:
                sys.exit("64-bit DWARF is not read")
            # DWARF 5, 7.5.1: unit_type and address_size come before the offset of the abbreviations.
            table_at, entry = (at + 8, at + 12) if version >= 5 else (at + 6, at + 11)
            yield at, self._name(entry, struct.unpack_from("<I", self.info, table_at)[0])
            at += 4 + length

    def _name(self, entry: int, table: int) -> str | None:
        code, at = _uleb(self.info, entry)
        first, declared = _uleb(self.abbreviations, table)
        if first != code:  # compilers number the unit's own entry first
            return None
        _tag, declared = _uleb(self.abbreviations, declared)
        declared += 1  # whether it has children
        for _ in range(32):
            attribute, declared = _uleb(self.abbreviations, declared)
            form, declared = _uleb(self.abbreviations, declared)
            if attribute == _DW_AT_NAME and form == _DW_FORM_STRING:
                return _string(self.info, at)
            if attribute == _DW_AT_NAME and form in self.strings:
                return _string(self.strings[form], struct.unpack_from("<I", self.info, at)[0])
            if form == _DW_FORM_STRING:
                at = self.info.index(b"\0", at) + 1
            elif form in _FORM_SIZES:
                at += _FORM_SIZES[form]
            else:
                return None
        return None


def _contents(section: DebugSectionDescriptor | None) -> bytes:
    if section is None:
        return b""
    section.stream.seek(0)
    return section.stream.read()


def _string(text: bytes, at: int) -> str:
    return text[at : text.index(b"\0", at)].decode("utf-8", "replace")


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned LEB128 number at `at`, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise ValueError("an endless LEB128 number")


if __name__ == "__main__":
    main()
