"""The local variables of the frames of one thread, read from its memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.cpython.containers import BoundedMemory, Objects
from weft.cpython.layout import Layout, RuntimeAddresses
from weft.cpython.objects import ObjectError
from weft.cpython.values import Values
from weft.errors import MemoryReadError
from weft.target.memory import Memory

MAX_FRAMES = 200  # innermost frames of a stack whose locals are read
_MAX_LOCALS = 1000  # of a frame
_MAX_READS = 200_000  # for a thread, which may be held meanwhile

# Include/internal/pycore_code.h, 3.11 on.
_CELL, _FREE = 0x40, 0x80
_TAGS = 3  # of a _PyStackRef (Include/internal/pycore_stackref.h, 3.14 on)
_TAGGED_INT = 3


@dataclass(frozen=True, slots=True)
class _Names:
    """The variables of a code object, slot by slot: name, and whether the slot may hold a cell."""

    slots: tuple[tuple[str, bool], ...]
    is_trampoline: bool


class LocalsReader:
    """Reads the locals of one runtime's frames."""

    def __init__(self, memory: Memory, layout: Layout, addresses: RuntimeAddresses) -> None:
        self._memory = BoundedMemory(memory, 0)
        self._objects = Objects(self._memory, layout, addresses)
        self._values = Values(self._objects)
        self._names: dict[int, _Names | str] = {}

    def read(self, thread_state: int) -> list[dict[str, str]]:
        """Return the locals of the innermost frames, at most MAX_FRAMES, innermost first: name -> value.

        The frames are those that the native walk gives: neither shims nor trampolines. The thread must stand still.
        What cannot be read is shown as such; where the chain of frames breaks, the list ends.
        """
        self._memory.reads_left = _MAX_READS
        found: list[dict[str, str]] = []
        try:
            for frame, code in self._frames(thread_state):
                names = self._names_of(code)
                if isinstance(names, _Names) and names.is_trampoline:
                    continue
                found.append(self._locals(frame, names))
                if len(found) == MAX_FRAMES:
                    break
        except (MemoryReadError, ObjectError):
            pass  # the stack itself says that it is truncated
        return found

    def _frames(self, thread_state: int) -> Iterator[tuple[int, int]]:
        """Yield the address of each Python frame and of its code."""
        layout, pointer = self._objects.layout, self._objects.pointer
        frame = pointer(thread_state + layout.thread_frame)
        if frame and layout.cframe_frame is not None:
            frame = pointer(frame + layout.cframe_frame)
        for _ in range(4 * MAX_FRAMES):  # shims and trampolines lie between
            if not frame:
                return
            owner = 0
            if layout.frame_owner is not None:
                owner = self._objects.memory.read(frame + layout.frame_owner, 1)[0]
            if layout.frame_owner_shim is None or owner < layout.frame_owner_shim:
                yield frame, pointer(frame + layout.frame_code) & ~layout.frame_code_tags
            frame = pointer(frame + layout.frame_previous)

    def _names_of(self, code: int) -> _Names | str:
        """Return the variables of a code object, or why they cannot be read."""
        if code not in self._names:
            try:
                self._names[code] = self._read_names(code)
            except (MemoryReadError, ObjectError) as error:
                self._names[code] = str(error)
        return self._names[code]

    def _read_names(self, code: int) -> _Names:
        objects, offsets = self._objects, self._objects.offsets
        layout, pointer = objects.layout, objects.pointer
        name = pointer(code + layout.code_name)
        # Python/specialize.c, _Py_InitCleanup (3.13 on): its file is its name.
        trampoline = pointer(code + layout.code_filename) == name and objects.name(name) == "__init__"
        slots: list[tuple[str, bool]] = []
        if offsets.code_localsplusnames is not None and offsets.code_localspluskinds is not None:
            names = self._tuple(pointer(code + offsets.code_localsplusnames))
            kinds, _ = objects.byte_string(pointer(code + offsets.code_localspluskinds), _MAX_LOCALS)
            slots = [(name, bool(kind & (_CELL | _FREE))) for name, kind in zip(names, kinds, strict=False)]
        else:  # f_localsplus: the locals, then the cells, then the free variables
            parts = (offsets.code_varnames, False), (offsets.code_cellvars, True), (offsets.code_freevars, True)
            for offset, is_cell in parts:
                assert offset is not None
                slots += [(name, is_cell) for name in self._tuple(pointer(code + offset))]
        return _Names(tuple(slots[:_MAX_LOCALS]), trampoline)

    def _tuple(self, obj: int) -> list[str]:
        if (kind := self._objects.type_of(obj).name) != "tuple":
            raise ObjectError(f"names of the type {kind!r}")
        items, _ = self._objects.items(obj, _MAX_LOCALS)
        return [self._objects.name(item) for item in items]

    def _locals(self, frame: int, names: _Names | str) -> dict[str, str]:
        if isinstance(names, str):
            return {"locals": f"<unreadable: {names}>"}
        start = frame + self._objects.layout.frame_localsplus
        found: dict[str, str] = {}
        for index, (name, is_cell) in enumerate(names.slots):
            try:
                value = self._value(self._objects.pointer(start + 8 * index), is_cell=is_cell)
            except (MemoryReadError, ObjectError) as error:
                value = f"<unreadable: {error}>"
            if value is not None:
                found[name] = value
        return found

    def _value(self, slot: int, *, is_cell: bool) -> str | None:
        """Return what a slot holds, None if it is not bound."""
        if self._objects.version >= (3, 14):
            if slot & _TAGS == _TAGGED_INT:
                return str((slot - (1 << 64) if slot >> 63 else slot) >> 2)
            slot &= ~_TAGS
        if slot and is_cell and self._objects.type_of(slot).name == "cell":
            slot = self._objects.field(slot)
        return self._values.show(slot) if slot else None
