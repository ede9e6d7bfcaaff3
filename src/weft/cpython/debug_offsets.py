"""A layout from `_Py_DebugOffsets`, the table at the start of `_PyRuntime` in which CPython 3.13 on tells its offsets.

The table's own layout belongs to a minor version: Include/internal/pycore_runtime.h in 3.13, pycore_debug_offsets.h
from 3.14 on. What it does not tell (how a data stack chunk looks, the first traceable instruction) is taken from the
table file of that minor version, where the neighbours that both tell agree.
"""

from __future__ import annotations

import struct

from weft.cpython.layout import RuntimeLayout, Source, Version, build
from weft.cpython.tables import layouts_from_tables
from weft.errors import LayoutError
from weft.target.memory import Memory

COOKIE = b"xdebugpy"

# The entries in order, 8 bytes each, behind the cookie, the version and the free-threaded flag; up to the last used.
_ENTRIES_313 = """
    runtime_state: size finalizing interpreters_head
    interpreter_state: size id next threads_head gc imports_modules sysdict builtins ceval_gil gil_runtime_state
        gil_runtime_state_enabled gil_runtime_state_locked gil_runtime_state_holder
    thread_state: size prev next interp current_frame thread_id native_thread_id datastack_chunk status
    interpreter_frame: size previous executable instr_ptr localsplus owner
    code_object: size filename name qualname linetable firstlineno argcount localsplusnames localspluskinds
        co_code_adaptive
    pyobject: size ob_type
    type_object: size tp_name tp_repr tp_flags
    tuple_object: size ob_item ob_size
    list_object: size ob_item ob_size
    dict_object: size ma_keys ma_values
    float_object: size ob_fval
    long_object: size lv_tag ob_digit
    bytes_object: size ob_size ob_sval
    unicode_object: size state length asciiobject_size
"""
_ENTRIES_314 = """
    runtime_state: size finalizing interpreters_head
    interpreter_state: size id next threads_head threads_main gc imports_modules sysdict builtins ceval_gil
        gil_runtime_state gil_runtime_state_enabled gil_runtime_state_locked gil_runtime_state_holder
        code_object_generation tlbc_generation
    thread_state: size prev next interp current_frame thread_id native_thread_id datastack_chunk status
    interpreter_frame: size previous executable instr_ptr localsplus owner stackpointer tlbc_index
    code_object: size filename name qualname linetable firstlineno argcount localsplusnames localspluskinds
        co_code_adaptive co_tlbc
    pyobject: size ob_type
    type_object: size tp_name tp_repr tp_flags
    tuple_object: size ob_item ob_size
    list_object: size ob_item ob_size
    set_object: size used table mask
    dict_object: size ma_keys ma_values
    float_object: size ob_fval
    long_object: size lv_tag ob_digit
    bytes_object: size ob_size ob_sval
    unicode_object: size state length asciiobject_size
"""
_ENTRIES_315 = """
    runtime_state: size finalizing interpreters_head
    interpreter_state: size id next threads_head threads_main gc imports_modules sysdict builtins ceval_gil
        gil_runtime_state gil_runtime_state_enabled gil_runtime_state_locked gil_runtime_state_holder
        code_object_generation tlbc_generation
    thread_state: size prev next interp current_frame base_frame last_profiled_frame last_profiled_frame_seq thread_id
        native_thread_id datastack_chunk status holds_gil gil_requested current_exception exc_state
    err_stackitem: exc_value
    interpreter_frame: size previous executable instr_ptr localsplus owner stackpointer tlbc_index
    code_object: size filename name qualname linetable firstlineno argcount localsplusnames localspluskinds
        co_code_adaptive co_tlbc
    pyobject: size ob_type
    type_object: size tp_name tp_repr tp_flags tp_basicsize tp_dictoffset
    heap_type_object: size ht_cached_keys
    tuple_object: size ob_item ob_size
    list_object: size ob_item ob_size
    set_object: size used table mask
    dict_object: size ma_keys ma_values
    float_object: size ob_fval
    long_object: size lv_tag ob_digit
    bytes_object: size ob_size ob_sval
    unicode_object: size state length asciiobject_size compactunicodeobject_size
"""
_ENTRIES = {(3, 13): _ENTRIES_313, (3, 14): _ENTRIES_314, (3, 15): _ENTRIES_315}

# Layout field -> the entry that tells it.
_FIELDS = {
    "interp_id": "interpreter_state.id",
    "interp_next": "interpreter_state.next",
    "interp_threads_head": "interpreter_state.threads_head",
    "interp_gil": "interpreter_state.ceval_gil",
    "interp_code_generation": "interpreter_state.code_object_generation",
    "thread_next": "thread_state.next",
    "thread_interp": "thread_state.interp",
    "thread_frame": "thread_state.current_frame",
    "thread_pthread": "thread_state.thread_id",
    "thread_native_id": "thread_state.native_thread_id",
    "thread_chunk": "thread_state.datastack_chunk",
    "thread_holds_gil": "thread_state.holds_gil",
    "frame_previous": "interpreter_frame.previous",
    "frame_code": "interpreter_frame.executable",
    "frame_instruction": "interpreter_frame.instr_ptr",
    "frame_localsplus": "interpreter_frame.localsplus",
    "frame_owner": "interpreter_frame.owner",
    "code_filename": "code_object.filename",
    "code_name": "code_object.name",
    "code_qualname": "code_object.qualname",
    "code_linetable": "code_object.linetable",
    "code_firstlineno": "code_object.firstlineno",
    "code_adaptive": "code_object.co_code_adaptive",
    "object_type": "pyobject.ob_type",
    "type_name": "type_object.tp_name",
    "bytes_length": "bytes_object.ob_size",
    "bytes_data": "bytes_object.ob_sval",
    "str_state": "unicode_object.state",
    "str_length": "unicode_object.length",
    "str_ascii_data": "unicode_object.asciiobject_size",
}
_FREE_THREADED_FIELDS = {
    "frame_tlbc_index": "interpreter_frame.tlbc_index",
    "code_tlbc": "code_object.co_tlbc",
}

# Fields that only the table file tells -> those that must agree for it to be believed.
_FROM_TABLE: dict[str, tuple[str, ...]] = {
    "gil_size": ("gil_last_holder", "gil_locked"),
    "thread_chunk_top": ("thread_chunk", "thread_native_id"),
    "thread_holds_gil": ("thread_frame", "thread_interp"),
    "chunk_previous": (),
    "chunk_size": (),
    "chunk_top": (),
    "chunk_data": (),
    "code_firsttraceable": ("code_linetable", "code_adaptive"),
    "code_version": ("code_firstlineno", "code_filename"),
    "str_kind_shift": ("str_state", "str_ascii_data"),
    "str_compact_data": ("str_ascii_data",),
    "str_data_pointer": ("str_ascii_data",),
}

_LIMIT = 1 << 24  # bytes; the largest struct has about 350 KB


def debug_offsets_version(memory: Memory, runtime: int) -> Version | None:
    """Return the version that a table at `runtime` tells; None if there is no table. MemoryReadError."""
    head = memory.read(runtime, 16)
    if head[:8] != COOKIE:
        return None
    return Version.from_hex(int.from_bytes(head[8:16], "little"))


def layout_from_debug_offsets(memory: Memory, runtime: int) -> Source:
    """Read the table at `runtime`, the address of `_PyRuntime`. LayoutError, MemoryReadError."""
    version = debug_offsets_version(memory, runtime)
    if version is None or version[:2] not in _ENTRIES:
        raise LayoutError(f"no table of debug offsets that weft knows at {runtime:#x}")
    names = _names(_ENTRIES[version[:2]])
    free_threaded, *numbers = struct.unpack(f"<{len(names) + 1}Q", memory.read(runtime + 16, 8 * (len(names) + 1)))
    entries = dict(zip(names, numbers, strict=True))
    wanted = _FIELDS | (_FREE_THREADED_FIELDS if free_threaded else {})
    offsets = {field: entries[entry] for field, entry in wanted.items() if entry in entries}
    # The entries of the GIL are told from the interpreter on, which holds its own one as _gil.
    own = entries["interpreter_state.gil_runtime_state"]
    offsets["gil_locked"] = entries["interpreter_state.gil_runtime_state_locked"] - own
    offsets["gil_last_holder"] = entries["interpreter_state.gil_runtime_state_holder"] - own
    head = entries["runtime_state.interpreters_head"]
    if not all(0 <= number < _LIMIT for number in (head, *offsets.values())):
        raise LayoutError("the table of debug offsets holds numbers that cannot be offsets")
    offsets |= _table_fields(version, bool(free_threaded), offsets)
    layout = build(version, free_threaded=bool(free_threaded), offsets=offsets)
    return Source(layout, RuntimeLayout(interpreters_head=head), "debug offsets")


def _names(entries: str) -> list[str]:
    names = []
    group = ""
    for word in entries.split():
        if word.endswith(":"):
            group = word[:-1]
        else:
            names.append(f"{group}.{word}")
    return names


def _table_fields(version: Version, free_threaded: bool, offsets: dict[str, int]) -> dict[str, int]:
    """Return the fields that a table file adds."""
    added: dict[str, int] = {}
    for source in layouts_from_tables(version, free_threaded=free_threaded):
        for field, guards in _FROM_TABLE.items():
            value = getattr(source.layout, field)
            agree = all(getattr(source.layout, guard) == offsets[guard] for guard in guards)
            if value is not None and agree and field not in offsets:
                added.setdefault(field, value)
    return added
