"""Where the objects of a program keep what weft shows of them: dicts, lists, numbers, classes, functions.

These structs belong to a minor version and do not move between its releases, so they follow from it. They were read
from the DWARF of 2.7.18, 3.6.15, 3.7.16, 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0, and from the debug offsets
of 3.13 to 3.15. Unlike a `Layout` they are not proven: values are shown as such, nothing is decided by them.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.cpython.layout import Layout, Version


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectLayout:
    """Offsets in bytes; None where the version has no such field. "Behind the header" is a PyObject's first field."""

    header: int  # bytes of a PyObject
    # PyTypeObject, PyHeapTypeObject
    type_basicsize: int
    type_flags: int
    type_dict: int
    type_dictoffset: int
    heap_qualname: int | None  # 3.3 on
    heap_cached_keys: int | None
    # PyTupleObject: from 3.14 on the hash comes before the items
    tuple_items: int
    # PyFunctionObject
    function_name: int  # the qualified one where there is one
    # PyCodeObject
    code_varnames: int | None  # up to 3.10, with the two below
    code_freevars: int | None
    code_cellvars: int | None
    code_localsplusnames: int | None  # 3.11 on, with the kinds
    code_localspluskinds: int | None


_FIRST = 16  # header of the builds that the numbers below are of

# By minor version: the first that it holds for.
_CACHED_KEYS = {(3, 6): 856, (3, 8): 872, (3, 9): 864, (3, 10): 872, (3, 12): 880, (3, 15): 888}
_FUNCTION_NAME = {(2, 7): 56, (3, 6): 104, (3, 10): 40}
_VARNAMES = {(2, 7): 56, (3, 6): 64, (3, 8): 72}


def object_layout(layout: Layout) -> ObjectLayout:
    """Return what holds for the interpreter of a layout."""
    version = layout.python
    header = layout.object_type + 8
    more = header - _FIRST  # a free-threaded build's header is larger
    varnames = _since(_VARNAMES, version) + more
    keys = None if version < (3, 3) else _since(_CACHED_KEYS, version) + more
    old, new = version < (3, 11), version >= (3, 11)
    return ObjectLayout(
        header=header,
        type_basicsize=32 + more,
        type_flags=168 + more,
        type_dict=264 + more,
        type_dictoffset=288 + more,
        heap_qualname=None if keys is None else keys - 8,
        heap_cached_keys=keys,
        tuple_items=(32 if version >= (3, 14) else 24) + more,
        function_name=_since(_FUNCTION_NAME, version) + more,
        code_varnames=varnames if old else None,
        code_freevars=varnames + 8 if old else None,
        code_cellvars=varnames + 16 if old else None,
        code_localsplusnames=96 + more if new else None,
        code_localspluskinds=104 + more if new else None,
    )


def _since(numbers: dict[tuple[int, int], int], version: Version) -> int:
    return numbers[max(minor for minor in numbers if minor <= version[:2])]
