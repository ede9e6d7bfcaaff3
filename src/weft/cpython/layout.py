"""The layout: where one CPython build keeps the fields that weft reads.

`Layout` is the Python side of native/python/layout.h: the same names in the same order. The other modules of this
package make one from `_Py_DebugOffsets` (debug_offsets.py), from DWARF (dwarf.py) or from a table (tables.py);
check.py proves it on the target before anything trusts it.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import IntEnum
from typing import NamedTuple, Self

from weft.errors import LayoutError

ABSENT = 0xFFFFFFFF  # kAbsent of layout.h: how a field that is None goes to C++

_LEVELS = {0xA: "a", 0xB: "b", 0xC: "rc", 0xF: ""}


class Version(NamedTuple):
    """A CPython version, as in sys.version_info; `level` is 0xA, 0xB, 0xC or 0xF (final)."""

    major: int
    minor: int
    micro: int = 0
    level: int = 0xF
    serial: int = 0

    @classmethod
    def from_hex(cls, number: int) -> Self:
        """From PY_VERSION_HEX (Include/patchlevel.h)."""
        return cls(number >> 24 & 0xFF, number >> 16 & 0xFF, number >> 8 & 0xFF, number >> 4 & 0xF, number & 0xF)

    @property
    def hex(self) -> int:
        """The PY_VERSION_HEX."""
        return self.major << 24 | self.minor << 16 | self.micro << 8 | self.level << 4 | self.serial

    def __str__(self) -> str:
        level = _LEVELS.get(self.level, "?")
        return f"{self.major}.{self.minor}.{self.micro}{level}{self.serial if level else ''}"


class Instruction(IntEnum):
    """How a frame says where it stands in its code."""

    BYTE_INDEX = 0  # int f_lasti counts bytes (2.7-3.9); -1: not started
    UNIT_INDEX = 1  # int f_lasti counts 2-byte code units (3.10); -1: not started
    POINTER = 2  # a pointer into the bytecode (3.11 on)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Offsets and sizes in bytes; None where the version has no such field. layout.h tells what each one means."""

    version: int
    pointer_size: int
    free_threaded: int
    # interpreter state
    interp_next: int
    interp_id: int | None = None
    interp_threads_head: int
    interp_gil: int | None = None
    interp_code_generation: int | None = None
    # the GIL
    gil_last_holder: int | None = None
    gil_locked: int | None = None
    gil_size: int | None = None
    # thread state
    thread_size: int
    thread_next: int
    thread_interp: int
    thread_frame: int
    thread_cframe: int | None = None
    cframe_frame: int | None = None
    cframe_previous: int | None = None
    thread_pthread: int
    thread_native_id: int | None = None
    thread_holds_gil: int | None = None
    thread_chunk: int | None = None
    thread_chunk_top: int | None = None
    # data stack chunk
    chunk_previous: int | None = None
    chunk_size: int | None = None
    chunk_top: int | None = None
    chunk_data: int | None = None
    # frame
    frame_size: int
    frame_previous: int
    frame_code: int
    frame_code_tags: int
    frame_instruction: int
    instruction_kind: int
    frame_owner: int | None = None
    frame_owner_shim: int | None = None
    frame_is_entry: int | None = None
    frame_tlbc_index: int | None = None
    frame_localsplus: int
    # code object
    code_filename: int
    code_name: int
    code_qualname: int | None = None
    code_firstlineno: int
    code_linetable: int
    code_adaptive: int | None = None
    code_firsttraceable: int | None = None
    code_version: int | None = None
    code_tlbc: int | None = None
    # objects
    object_type: int
    type_name: int
    bytes_length: int
    bytes_data: int
    names_are_bytes: int
    str_length: int | None = None
    str_state: int | None = None
    str_kind_shift: int | None = None
    str_ascii_data: int | None = None
    str_compact_data: int | None = None
    str_data_pointer: int | None = None

    @property
    def python(self) -> Version:
        """The version as a tuple."""
        return Version.from_hex(self.version)

    def numbers(self) -> dict[str, int]:
        """Return every field with None as ABSENT: the form that C++ takes."""
        return {name: ABSENT if (value := getattr(self, name)) is None else value for name in FIELDS}


FIELDS = tuple(field.name for field in fields(Layout))

_DERIVED = {"thread_size", "frame_size"}  # follow from the others


class RuntimeLayout(NamedTuple):
    """Where `_PyRuntime` (3.7 on) keeps the roots, in bytes from its start; None where it does not."""

    interpreters_head: int
    current_thread: int | None = None  # gilstate.tstate_current, 3.7-3.11
    gil: int | None = None  # ceval.gil, 3.7-3.11


class RuntimeAddresses(NamedTuple):
    """Where one process keeps the roots; 0 where there is none (layout.h)."""

    interpreters_head: int
    current_thread: int = 0
    gil: int = 0
    current_state: int = 0  # from the thread pointer


class Source(NamedTuple):
    """A layout that was found, the one of `_PyRuntime`, and where they come from: "debug offsets", "DWARF" ..."""

    layout: Layout
    runtime: RuntimeLayout | None
    name: str
    in_range: bool = True  # False: a table for other releases of the minor version


def build(version: Version, *, free_threaded: bool, offsets: dict[str, int]) -> Layout:
    """Make a layout of the offsets that were found, with what follows from the version.

    LayoutError if an offset is missing that this version must have.
    """
    numbers = {name: value for name, value in offsets.items() if name in FIELDS}
    numbers |= {"version": version.hex, "pointer_size": 8, "free_threaded": int(free_threaded)}
    numbers["names_are_bytes"] = int(version.major == 2)
    if version < (3, 12):
        numbers.pop("gil_last_holder", None)  # the holder is RuntimeAddresses.current_thread
    # Up to 3.13 the code of a frame is a plain pointer; from 3.14 it is a _PyStackRef, whose low bits are tags
    # (Include/internal/pycore_stackref.h).
    numbers["frame_code_tags"] = 3 if version >= (3, 14) else 0
    if (3, 11) <= version < (3, 13):
        # The last field of _PyCFrame, behind current_frame (Include/cpython/pystate.h).
        numbers["cframe_previous"] = numbers["cframe_frame"] + 8
    if version >= (3, 12):
        # FRAME_OWNED_BY_CSTACK in 3.12 and 3.13, FRAME_OWNED_BY_INTERPRETER from 3.14 (pycore_frame.h,
        # pycore_interpframe_structs.h).
        numbers["frame_owner_shim"] = 3
    if version >= (3, 11):
        numbers["instruction_kind"] = Instruction.POINTER
    else:
        numbers["instruction_kind"] = Instruction.UNIT_INDEX if version >= (3, 10) else Instruction.BYTE_INDEX
    missing = sorted(_required(version) - numbers.keys())
    if missing:
        raise LayoutError(f"the layout of CPython {version} lacks {', '.join(missing)}")
    numbers["thread_size"] = max(at for name, at in numbers.items() if name.startswith("thread_")) + 8
    # From 3.11 the locals follow all other fields; before, f_lasti does.
    numbers["frame_size"] = numbers["frame_localsplus"] if version >= (3, 11) else numbers["frame_instruction"] + 4
    return Layout(**numbers)


def _required(version: Version) -> set[str]:
    """Return the offsets without which weft cannot read this version."""
    names = {f.name for f in fields(Layout) if f.default is MISSING} - _DERIVED
    if version.major >= 3:
        names |= {"str_length", "str_state", "str_kind_shift", "str_ascii_data", "str_compact_data", "str_data_pointer"}
    if version >= (3, 11):
        names |= {"thread_native_id", "frame_owner", "code_qualname", "code_adaptive", "code_firsttraceable"}
        names |= {"thread_chunk", "thread_chunk_top", "chunk_previous", "chunk_size", "chunk_top", "chunk_data"}
    if (3, 11) <= version < (3, 13):
        names |= {"cframe_frame"}
    if version[:2] == (3, 11):
        names |= {"frame_is_entry"}
    if version >= (3, 12):
        names |= {"interp_gil", "gil_last_holder", "gil_locked", "gil_size", "code_version"}
    return names
