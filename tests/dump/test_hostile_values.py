"""Values from memory that lies: whatever the bytes are, there is a short text, after a bounded number of reads."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cpython.containers import BoundedMemory, Objects
from weft.cpython.frame_locals import LocalsReader
from weft.cpython.layout import Layout, RuntimeAddresses, Version
from weft.cpython.objects import ObjectError
from weft.cpython.tables import layouts_from_tables
from weft.cpython.values import MAX_VALUE, Values
from weft.errors import MemoryReadError

VERSIONS = [Version(2, 7, 18), *(Version(3, minor, 1) for minor in range(6, 16))]
TYPES = [
    "int",
    "long",
    "bool",
    "float",
    "complex",
    "NoneType",
    "str",
    "unicode",
    "bytes",
    "bytearray",
    "range",
    "xrange",
    "function",
    "method",
    "instancemethod",
    "builtin_function_or_method",
    "module",
    "classobj",
    "instance",
    "list",
    "tuple",
    "dict",
    "mappingproxy",
    "frozendict",
    "set",
    "frozenset",
    "cell",
    "type",
    "Strange",
]

SOUP, SIZE = 0x10000, 1 << 16  # objects
KINDS = 0x40000  # their types, 512 bytes each
NAMES = 0x80000  # the names of those
READS = 50_000


class Soup:
    """Memory full of words that are small numbers, pointers into itself, or anything; every fourth a known type."""

    def __init__(self, layout: Layout, seed: int) -> None:
        chosen = random.Random(seed)
        self.reads = 0
        kinds = [KINDS + 512 * index for index in range(len(TYPES))]

        def word() -> int:
            return chosen.choice(
                [
                    chosen.randrange(40),
                    SOUP + 8 * chosen.randrange(SIZE // 8),
                    chosen.choice(kinds),
                    chosen.choice(kinds),
                    chosen.getrandbits(64),
                ]
            )

        self.parts = {SOUP: b"".join(struct.pack("<Q", word()) for _ in range(SIZE // 8))}
        types = bytearray(512 * len(TYPES))
        for index in range(len(TYPES)):
            struct.pack_into("<Q", types, 512 * index + layout.type_name, NAMES + 64 * index)
            flags = chosen.choice([0, 0, 0, 1 << 9, 1 << 9 | 1 << 4, 1 << 31])
            struct.pack_into("<Q", types, 512 * index + layout.object_type + 160, flags)  # tp_flags
        self.parts[KINDS] = bytes(types)
        self.parts[NAMES] = b"".join(name.encode().ljust(64, b"\0") for name in TYPES).ljust(8192, b"\0")

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        for start, data in self.parts.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise MemoryReadError(address, size)


def layout_of(version: Version) -> Layout:
    return layouts_from_tables(version, free_threaded=False)[0].layout


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_any_bytes(version: Version, seed: int) -> None:
    """GIVEN objects made of anything, among them containers of themselves and sizes that cannot be."""
    layout = layout_of(version)
    soup = Soup(layout, seed)
    bounded = BoundedMemory(soup, 0)
    values = Values(Objects(bounded, layout, RuntimeAddresses(interpreters_head=SOUP)))
    shown = []
    for address in range(SOUP, SOUP + 800, 8):
        bounded.reads_left = READS
        shown.append(values.show(address))
    assert all(0 < len(text) <= MAX_VALUE + 1 for text in shown)
    assert soup.reads <= READS * len(shown)


def test_the_soup_reaches_every_kind() -> None:
    """The test above means something: values of many kinds come out of it, and not only refusals."""
    layout = layout_of(Version(3, 13, 0))
    found = set()
    for seed in range(20):
        values = Values(
            Objects(BoundedMemory(Soup(layout, seed), 1 << 30), layout, RuntimeAddresses(interpreters_head=SOUP))
        )
        for address in range(SOUP, SOUP + 8000, 8):
            found.add(values.show(address)[:4])
    for start in ("[", "{", "(", "set", "byt", "<unr", "<fun", "None", "Fals", "fro"):
        assert any(text.startswith(start) for text in found), (start, found)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_any_frames(version: Version, seed: int) -> None:
    """GIVEN a thread state, frames and code objects made of anything."""
    layout = layout_of(version)
    soup = Soup(layout, seed)
    reader = LocalsReader(soup, layout, RuntimeAddresses(interpreters_head=SOUP))
    for address in range(SOUP, SOUP + 160, 8):
        for variables in reader.read(address):
            assert all(len(value) <= MAX_VALUE + 200 for value in variables.values())


def test_reading_is_bounded() -> None:
    """GIVEN a dict that says that it has a billion entries, all of them empty, at any address."""

    class Endless:
        def __init__(self) -> None:
            self.reads = 0

        def read(self, address: int, size: int) -> bytes:
            self.reads += 1
            return (b"\0\0\0\0\0\x01\0\0" * (size // 8 + 1))[:size]

    endless = Endless()
    layout = layout_of(Version(3, 9, 0))
    objects = Objects(BoundedMemory(endless, 5000), layout, RuntimeAddresses(interpreters_head=SOUP))
    with pytest.raises(ObjectError, match="too much to read"):
        while True:
            list(objects.dict_items(0x10000))
    assert endless.reads <= 5000
