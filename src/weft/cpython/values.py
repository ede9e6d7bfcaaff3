"""Short representations of a program's values, read from its memory: nothing of it is run.

As `repr` gives them for the built-in types, cut where they grow long; other objects by their class and address. What
cannot be read is shown as `<unreadable: why>`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from weft.cpython.containers import Objects
from weft.cpython.objects import ObjectError
from weft.errors import MemoryReadError
from weft.target.memory import read_cstring

MAX_VALUE = 120  # characters
MAX_ITEMS = 10  # of a container
MAX_DEPTH = 3  # of containers in one another

_CUT = "…"
_MAX_DIGITS = 128  # of a long integer, 30 bits each: 1156 decimal digits
_DIGIT_BITS = 30  # PYLONG_BITS_IN_DIGIT of 64-bit builds


class Values:
    """Represents values of one runtime."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._old = objects.version < (3, 0)
        self._makers: dict[str, Callable[[int], str]] = {
            "int": self._small_int if self._old else self._int,
            "long": self._long,
            "bool": lambda obj: str(self._truth(obj)),
            "float": lambda obj: repr(self._doubles(obj)[0]),
            "complex": lambda obj: repr(complex(*self._doubles(obj))),
            "NoneType": lambda _: "None",
            "NotImplementedType": lambda _: "NotImplemented",
            "ellipsis": lambda _: "Ellipsis",
            "str": self._bytes if self._old else self._str,
            "unicode": self._unicode,
            "bytes": self._bytes,
            "bytearray": self._bytearray,
            "range": self._range,
            "xrange": self._xrange,
            "function": lambda obj: f"<function {self._function_name(obj)} at {obj:#x}>",
            "method": self._method,
            "instancemethod": self._method,
            "builtin_function_or_method": self._builtin,
            "module": lambda obj: f"<module {self._string_in(objects.field(obj), '__name__')!r}>",
            "classobj": lambda obj: f"<class {self._old_class_name(obj)} at {obj:#x}>",
            "instance": lambda obj: f"<{self._old_class_name(objects.field(obj))} instance at {obj:#x}>",
        }
        self._containers: dict[str, Callable[[int, _Inner], str]] = {
            "list": self._list,
            "tuple": self._tuple,
            "dict": self._dict,
            "mappingproxy": lambda obj, inner: f"mappingproxy({inner(objects.field(obj))})",
            "frozendict": lambda obj, inner: f"frozendict({self._dict(obj, inner)})",
            "set": self._set,
            "frozenset": self._set,
        }

    def show(self, obj: int) -> str:
        """Return the representation of an object, at most MAX_VALUE characters and an ellipsis."""
        return _cut(self._show(obj, ()))

    def _show(self, obj: int, outer: tuple[int, ...]) -> str:
        try:
            kind = self._objects.type_of(obj)
            if kind.builtin and kind.name in self._makers:
                return self._makers[kind.name](obj)
            if kind.builtin and kind.name in self._containers:
                if obj in outer or len(outer) == MAX_DEPTH:
                    return {"list": "[...]", "dict": "{...}", "tuple": "(...)"}.get(kind.name, f"{kind.name}(...)")
                return self._containers[kind.name](obj, lambda item: self._show(item, (*outer, obj)))
            if kind.is_metatype:
                builtin = self._objects.type_at(obj).builtin
                return f"<{'type' if self._old and builtin else 'class'} {self._class_name(obj)!r}>"
            return f"<{self._class_name(kind.address).removeprefix('builtins.')} object at {obj:#x}>"
        except (MemoryReadError, ObjectError) as error:
            return f"<unreadable: {error}>"

    # Numbers

    def _small_int(self, obj: int) -> str:
        return str(_signed(self._objects.field(obj)))

    def _truth(self, obj: int) -> bool:
        return (self._small_int(obj) if self._old else self._int(obj)) != "0"

    def _doubles(self, obj: int) -> tuple[float, float]:
        # A float has one; what lies behind it is read with it where it can be.
        at = obj + self._objects.offsets.header
        size = 16 if self._objects.type_of(obj).name == "complex" else 8
        data = self._objects.memory.read(at, size).ljust(16, b"\0")
        return struct.unpack("<dd", data)

    def _int(self, obj: int) -> str:
        """Digits of 30 bits, lowest first; the sign in ob_size, from 3.12 on in lv_tag (cpython/longintrepr.h)."""
        objects = self._objects
        size = _signed(objects.field(obj))
        negative = size < 0
        count = abs(size)
        if objects.version >= (3, 12):
            count, negative = size >> 3 & (1 << 60) - 1, size & 3 == 2
        if count >= 1 << 40:
            raise ObjectError(f"an int of {count} digits")
        if count > _MAX_DIGITS:
            return f"<{'negative ' if negative else ''}int of about {count * _DIGIT_BITS} bits>"
        data = objects.memory.read(obj + objects.offsets.header + 8, 4 * count)
        number = sum(digit << _DIGIT_BITS * i for i, (digit,) in enumerate(struct.iter_unpack("<I", data)))
        return str(-number if negative else number)

    def _long(self, obj: int) -> str:
        text = self._int(obj)
        return text if text.startswith("<") else text + "L"

    def _range(self, obj: int) -> str:
        start, stop, step = (self._int(self._objects.field(obj, index)) for index in range(3))
        return f"range({start}, {stop})" if step == "1" else f"range({start}, {stop}, {step})"

    def _xrange(self, obj: int) -> str:
        start, step, length = (_signed(self._objects.field(obj, index)) for index in range(3))
        stop = start + step * length
        if step != 1:
            return f"xrange({start}, {stop}, {step})"
        return f"xrange({start}, {stop})" if start else f"xrange({stop})"

    # Strings

    def _str(self, obj: int) -> str:
        text, length = self._objects.string(obj, MAX_VALUE)
        return repr(text) + (_CUT if length > MAX_VALUE else "")

    def _unicode(self, obj: int) -> str:
        text, length = self._objects.string(obj, MAX_VALUE)
        # A narrow build keeps two surrogates for one character, and shows the character: the decoder has joined them.
        return "u" + ascii(text) + (_CUT if length > MAX_VALUE else "")

    def _bytes(self, obj: int) -> str:
        data, length = self._objects.byte_string(obj, MAX_VALUE)
        return repr(data)[self._old :] + (_CUT if length > MAX_VALUE else "")

    def _bytearray(self, obj: int) -> str:
        objects = self._objects
        length = objects.size(obj)
        if not 0 <= length < 1 << 40:
            raise ObjectError(f"a bytearray of {length} bytes")
        # ob_start, in 2.7 ob_bytes: the same place.
        data = objects.memory.read(objects.field(obj, 3), min(length, MAX_VALUE)) if length else b""
        return f"bytearray({data!r}{_CUT if length > MAX_VALUE else ''})"

    # Containers

    def _list(self, obj: int, inner: _Inner) -> str:
        items, size = self._objects.items(obj, MAX_ITEMS)
        return f"[{_join(map(inner, items), size > len(items))}]"

    def _tuple(self, obj: int, inner: _Inner) -> str:
        items, size = self._objects.items(obj, MAX_ITEMS)
        return f"({_join(map(inner, items), size > len(items))}{',' if size == 1 else ''})"

    def _dict(self, obj: int, inner: _Inner) -> str:
        pairs = list(islice(self._objects.dict_items(obj), MAX_ITEMS + 1))
        shown = (f"{inner(key)}: {inner(value)}" for key, value in pairs[:MAX_ITEMS])
        return f"{{{_join(shown, len(pairs) > MAX_ITEMS)}}}"

    def _set(self, obj: int, inner: _Inner) -> str:
        items = list(islice(self._objects.set_items(obj), MAX_ITEMS + 1))
        name = self._objects.type_of(obj).name
        shown = _join(map(inner, items[:MAX_ITEMS]), len(items) > MAX_ITEMS)
        if self._old or not items:
            return f"{name}([{shown}])" if items else f"{name}({'[]' if self._old else ''})"
        return f"{{{shown}}}" if name == "set" else f"{name}({{{shown}}})"

    # By name

    def _function_name(self, obj: int) -> str:
        return self._objects.name(self._objects.pointer(obj + self._objects.offsets.function_name))

    def _method(self, obj: int) -> str:
        function = self._objects.field(obj)
        kind = self._objects.type_of(function)
        if kind.builtin and kind.name == "function":
            return f"<bound method {self._function_name(function)}>"
        return f"<bound method of a {kind.name}>"

    def _builtin(self, obj: int) -> str:
        # PyMethodDef begins with the name (Include/methodobject.h); a plain function has a module, or nothing, as self.
        raw = read_cstring(self._objects.memory, self._objects.pointer(self._objects.field(obj)), 128)
        name = raw.decode("utf-8", "backslashreplace")
        owner = self._objects.field(obj, 1)
        kind = self._objects.type_of(owner).name if owner else "module"
        if kind == "module":
            return f"<built-in function {name}>"
        return f"<built-in method {name} of {kind} object at {owner:#x}>"

    def _class_name(self, address: int) -> str:
        """Return module.Qualified.Name of a class."""
        objects = self._objects
        kind = objects.type_at(address)
        if kind.builtin:
            return kind.name
        qualname = kind.name
        if objects.offsets.heap_qualname is not None:
            with suppress(MemoryReadError, ObjectError):
                qualname = objects.name(objects.pointer(address + objects.offsets.heap_qualname))
        with suppress(MemoryReadError, ObjectError):
            return f"{self._string_in(objects.pointer(address + objects.offsets.type_dict), '__module__')}.{qualname}"
        return qualname

    def _old_class_name(self, obj: int) -> str:
        """Return module.Name of a class of 2.7 that does not derive from object (Include/classobject.h)."""
        name = self._objects.name(self._objects.field(obj, 2))
        return f"{self._string_in(self._objects.field(obj, 1), '__module__')}.{name}"

    def _string_in(self, dictionary: int, key: str) -> str:
        found = self._objects.lookup(dictionary, key)
        if not found:
            raise ObjectError(f"no {key}")
        return self._objects.name(found)


_Inner = Callable[[int], str]


def _join(items: Iterator[str], more: bool) -> str:
    """Join items until they are too long to be shown anyway."""
    shown: list[str] = []
    length = 0
    for item in items:
        shown.append(item)
        length += len(item) + 2
        if length > MAX_VALUE:
            break
    return ", ".join(shown) + (", ..." if more else "")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE else text[:MAX_VALUE] + _CUT


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
