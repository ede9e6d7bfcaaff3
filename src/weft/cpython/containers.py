"""Reading objects of a program: their types, strings, and what containers hold. All counts are bounded."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from weft.cpython.layout import Layout, RuntimeAddresses, Version
from weft.cpython.object_layout import object_layout
from weft.cpython.objects import ObjectError
from weft.errors import MemoryReadError
from weft.target.memory import Memory, read_cstring, read_u32, read_u64

MAX_ENTRIES = 1 << 16  # of a container that are looked at
_STEP = 64  # entries that are read at once
_MAX_INTERPRETER = 16 << 10  # bytes of an interpreter state; sys.modules lies in the first half of that

# Include/object.h, Include/internal/pycore_object.h
_INLINE_VALUES = 1 << 2  # 3.13 on
_MANAGED_DICT = 1 << 4  # 3.11 on
_HEAP = 1 << 9
_TYPE = 1 << 31

_WORD = struct.Struct("<Q")
_CODECS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


# Where an interpreter was found to keep its sys.modules: as a rule all of a build do so, and that is looked at first.
_modules_at: dict[Layout, int] = {}
_MAX_LAYOUTS = 1 << 10  # for which that is remembered: a hostile program may have any number


class Type(NamedTuple):
    """The type of an object."""

    address: int
    name: str
    flags: int

    @property
    def builtin(self) -> bool:
        """Whether it is one of the interpreter's own, or of an extension."""
        return not self.flags & _HEAP

    @property
    def is_metatype(self) -> bool:
        """Whether its objects are classes."""
        return bool(self.flags & _TYPE)


class BoundedMemory:
    """A memory that can be read so many times: what a hostile program has to show may have no end."""

    def __init__(self, memory: Memory, reads: int) -> None:
        self._memory = memory
        self.reads_left = reads

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes at `address`. MemoryReadError, ObjectError."""
        self.reads_left -= 1
        if self.reads_left < 0:
            raise ObjectError("there is too much to read")
        return self._memory.read(address, size)


Pair = tuple[int, int]  # addresses of a key and its value


class Objects:
    """The objects of one runtime. Every method may raise MemoryReadError or ObjectError."""

    def __init__(self, memory: Memory, layout: Layout, addresses: RuntimeAddresses) -> None:
        self.memory = memory
        self.layout = layout
        self.offsets = object_layout(layout)
        self.version: Version = layout.python
        self._addresses = addresses
        self._types: dict[int, Type] = {}

    def type_of(self, obj: int) -> Type:
        """Return the type of an object."""
        return self.type_at(self.pointer(obj + self.layout.object_type))

    def type_at(self, address: int) -> Type:
        """Return the type at an address."""
        known = self._types.get(address)
        if known is None:
            name = read_cstring(self.memory, self.pointer(address + self.layout.type_name), 256)
            flags = self.pointer(address + self.offsets.type_flags)
            known = self._types[address] = Type(address, name.decode("utf-8", "backslashreplace"), flags)
        return known

    def pointer(self, address: int) -> int:
        """Return the pointer at an address."""
        return read_u64(self.memory, address)

    def field(self, obj: int, index: int = 0) -> int:
        """Return the word `index` behind an object's header."""
        return self.pointer(obj + self.offsets.header + 8 * index)

    def size(self, obj: int) -> int:
        """Return the ob_size of an object of variable size."""
        number: int = struct.unpack("<q", self.memory.read(obj + self.offsets.header, 8))[0]
        return number

    def string(self, obj: int, limit: int) -> tuple[str, int]:
        """Return the first `limit` characters of a str (2.7: unicode), and how many it has. Surrogates stay."""
        if self.layout.names_are_bytes:
            length, width, data = self.field(obj), self._unicode_width, self.field(obj, 1)
        else:
            length, width, data = self._compact_string(obj)
        if length >= 1 << 40:
            raise ObjectError(f"a str of {length:#x} characters")
        raw = self.memory.read(data, min(length, limit) * width)
        try:
            return raw.decode(_CODECS[width], "surrogatepass"), length
        except UnicodeDecodeError:
            raise ObjectError("a str of numbers that are no characters") from None

    def _compact_string(self, obj: int) -> tuple[int, int, int]:
        """Return the length, the bytes a character, and where they are (Include/cpython/unicodeobject.h)."""
        layout = self.layout
        assert layout.str_length is not None
        assert layout.str_state is not None
        assert layout.str_kind_shift is not None
        state = read_u32(self.memory, obj + layout.str_state) >> layout.str_kind_shift
        kind, compact, ascii_only = state & 7, state >> 3 & 1, state >> 4 & 1
        if kind not in _CODECS:
            raise ObjectError(f"a str of kind {kind}")
        start = layout.str_ascii_data if ascii_only else layout.str_compact_data
        assert start is not None
        assert layout.str_data_pointer is not None
        data = obj + start if compact else self.pointer(obj + layout.str_data_pointer)
        return self.pointer(obj + layout.str_length), kind, data

    @cached_property
    def _unicode_width(self) -> int:
        """Bytes a character of 2.7's unicode, a choice of the build (--enable-unicode=ucs4): sys.maxunicode tells."""
        interpreters = self.interpreters()
        if not interpreters:
            raise ObjectError("no interpreter that tells how wide a unicode is")
        system = self.lookup(self.modules(interpreters[-1]), "sys")
        number = self.lookup(self.field(system), "maxunicode") if system else 0
        return 4 if number and self.field(number) > 0xFFFF else 2

    def name(self, obj: int, limit: int = 256) -> str:
        """Return a str that is a name; an ellipsis where it is longer than `limit`. ObjectError if it is no str."""
        kind = self.type_of(obj).name
        if kind != "str":
            raise ObjectError(f"a name of the type {kind!r}")
        if self.layout.names_are_bytes:
            data, length = self.byte_string(obj, limit)
            text = data.decode("utf-8", "backslashreplace")
        else:
            text, length = self.string(obj, limit)
        return text if length <= limit else text + "…"

    def byte_string(self, obj: int, limit: int) -> tuple[bytes, int]:
        """Return the first `limit` bytes of a bytes object (2.7: str), and how many it has."""
        length = self.pointer(obj + self.layout.bytes_length)
        return self.memory.read(obj + self.layout.bytes_data, min(length, limit)), length

    def items(self, obj: int, limit: int) -> tuple[tuple[int, ...], int]:
        """Return the addresses of the first `limit` items of a list or tuple, and how many it has."""
        size = self.size(obj)
        if not 0 <= size < 1 << 40:
            raise ObjectError(f"a container of {size} items")
        start = obj + self.offsets.tuple_items if self.type_of(obj).name == "tuple" else self.field(obj, 1)
        return self._words(start, min(size, limit)), size

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", self.memory.read(address, 8 * count)) if count else ()

    def set_items(self, obj: int) -> Iterator[int]:
        """Yield the addresses of the items of a set, in the order of its table (Include/setobject.h)."""
        mask, table = self.field(obj, 2), self.field(obj, 3)
        old = self.version < (3, 0)
        for first, second in self._entries(table, mask + 1, 2):
            key, hashed = (second, first) if old else (first, second)
            # An item that was removed leaves a dummy: of hash -1 in 3.x, a certain str in 2.7.
            removed = self._is_dummy(key) if old else hashed == 0xFFFFFFFFFFFFFFFF
            if key and not removed:
                yield key

    def _is_dummy(self, key: int) -> bool:
        return bool(key) and self.type_of(key).name == "str" and self.byte_string(key, 16) == (b"<dummy key>", 11)

    def dict_items(self, obj: int) -> Iterator[Pair]:
        """Yield the items of a dict in its own order, up to MAX_ENTRIES."""
        if self.version < (3, 0):  # Include/dictobject.h of 2.7: a table of (hash, key, value)
            for _, key, value in self._entries(self.field(obj, 3), self.field(obj, 2) + 1, 3):
                if key and value:
                    yield key, value
            return
        keys, values = self.field(obj, 2), self.field(obj, 3)
        yield from self._split_items(keys, values) if values else self._combined_items(keys)

    def _keys(self, keys: int) -> tuple[int, int, int]:
        """Return where the entries of a PyDictKeysObject are, how many, and words an entry (pycore_dict.h)."""
        if self.version < (3, 11):
            size, count, head = self.pointer(keys + 8), self.pointer(keys + 32), 40
            indices = size * next((width for width in (1, 2, 4) if size < 1 << 8 * width), 8)
            words = 3
        else:
            log2_bytes, kind = self.memory.read(keys + 9, 2)
            count, head = self.pointer(keys + 24), 32
            indices = 1 << min(log2_bytes, 48)
            words = 2 if kind else 3  # DICT_KEYS_GENERAL is 0; the others keep no hashes
        return keys + head + indices, min(count, MAX_ENTRIES), words

    def _combined_items(self, keys: int) -> Iterator[Pair]:
        start, count, words = self._keys(keys)
        for entry in self._entries(start, count, words):
            key, value = entry[-2:]
            if key and value:
                yield key, value

    def _split_items(self, keys: int, values: int) -> Iterator[Pair]:
        """Keys that several dicts share, and the values of one: in the order in which they came."""
        start, count, words = self._keys(keys)
        entries = list(self._entries(start, min(count, 256), words))  # SHARED_KEYS_MAX_SIZE is 30
        if self.version < (3, 11):
            order: bytes = bytes(range(len(entries)))
        elif self.version < (3, 13):
            order = self._order_311(values)
        else:
            capacity, size = self.memory.read(values, 2)
            values += 8
            order = self.memory.read(values + 8 * capacity, size)
        for index in order:
            value = self.pointer(values + 8 * index) if index < len(entries) else 0
            if value:
                yield entries[index][-2], value

    def _order_311(self, values: int) -> bytes:
        """3.11 and 3.12 keep the order before the values, backwards: [..., second, first, count, bytes before]."""
        size = self.memory.read(values - 2, 1)[0]
        return self.memory.read(values - 2 - size, size)[::-1]

    def _entries(self, start: int, count: int, words: int) -> Iterator[tuple[int, ...]]:
        count = min(count, MAX_ENTRIES)
        for at in range(0, count, _STEP):
            step = min(_STEP, count - at)
            data = self.memory.read(start + at * words * 8, step * words * 8)
            yield from struct.iter_unpack(f"<{words}Q", data)

    def mark_of(self, dictionary: int) -> tuple[int, ...]:
        """Return numbers that are others once a dict has got another key: how many it has and had, and its table."""
        words = tuple(self.field(dictionary, index) for index in range(4))
        return words if self.version < (3, 0) else (*words, self._keys(words[2])[1])

    def lookup(self, dictionary: int, key: str) -> int:
        """Return the value of a name in a dict; 0 if it has none."""
        for at, value in self.dict_items(dictionary):
            if self._is_str(at, key):
                return value
        return 0

    def _is_str(self, obj: int, text: str) -> bool:
        """Whether an object is this str. Most objects are told by one read: dicts have many keys."""
        layout = self.layout
        at = layout.bytes_length if layout.names_are_bytes else layout.str_length
        assert at is not None
        head = self.memory.read(obj, at + 8)
        (kind,), (length,) = _WORD.unpack_from(head, layout.object_type), _WORD.unpack_from(head, at)
        return length == len(text) and self.type_at(kind).name == "str" and self.name(obj) == text

    def attributes(self, obj: int) -> Iterator[Pair]:
        """Yield the items of the __dict__ of an instance, wherever this version keeps them."""
        kind = self.type_of(obj)
        if self.version >= (3, 11) and kind.flags & _MANAGED_DICT:
            yield from self._managed_attributes(obj, kind)
            return
        offset = self.pointer(kind.address + self.offsets.type_dictoffset)
        dictionary = self.pointer(obj + offset) if 0 < offset < 1 << 16 else 0
        if dictionary:
            yield from self.dict_items(dictionary)

    def _managed_attributes(self, obj: int, kind: Type) -> Iterator[Pair]:
        """Attributes before the object (3.11 on) or behind it (3.13 on): pycore_object.h of each version."""
        assert self.offsets.heap_cached_keys is not None
        keys = self.pointer(kind.address + self.offsets.heap_cached_keys)
        dictionary = self.pointer(obj - (8 if self.layout.free_threaded else 24))
        values = 0
        if self.version < (3, 12):
            values = self.pointer(obj - 32)
        elif self.version < (3, 13):
            if dictionary & 1:
                dictionary, values = 0, dictionary + 1
        elif not dictionary and kind.flags & _INLINE_VALUES:
            values = obj + self.pointer(kind.address + self.offsets.type_basicsize)
        if dictionary:
            yield from self.dict_items(dictionary)
        elif values and keys:
            yield from self._split_items(keys, values)

    def interpreters(self) -> list[int]:
        """Return the addresses of the interpreters, the main one last."""
        found: list[int] = []
        address = self.pointer(self._addresses.interpreters_head)
        while address and address not in found and len(found) < 1024:
            found.append(address)
            address = self.pointer(address + self.layout.interp_next)
        return found

    def modules(self, interpreter: int) -> int:
        """Return the address of the sys.modules of an interpreter: the first of its dicts that holds "sys"."""
        known = _modules_at.get(self.layout)
        with suppress(MemoryReadError):
            if known is not None and self._is_modules(address := self.pointer(interpreter + known)):
                return address
        for at, address in self._interpreter_words(interpreter):
            if self._is_modules(address):
                if len(_modules_at) < _MAX_LAYOUTS:
                    _modules_at[self.layout] = at
                return address
        raise ObjectError("no sys.modules in the interpreter")

    def _is_modules(self, address: int) -> bool:
        try:
            found = self.type_of(address)
            return found.name == "dict" and found.builtin and bool(self.lookup(address, "sys"))
        except (MemoryReadError, ObjectError):
            return False  # a word that is no pointer to an object

    def _interpreter_words(self, interpreter: int) -> Iterator[tuple[int, int]]:
        """Yield what may be pointers in an interpreter, by their offsets."""
        for begin in range(0, _MAX_INTERPRETER, 512):
            try:
                words = self._words(interpreter + begin, 64)
            except MemoryReadError:
                return
            for at, word in enumerate(words):
                if word % 8 == 0 and 1 << 16 <= word < 1 << 47:
                    yield begin + 8 * at, word
