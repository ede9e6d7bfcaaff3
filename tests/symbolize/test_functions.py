"""Functions by address, of tables that are too large to be kept as they are."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.symbolize.functions import Functions
from weft.target.elf import ElfError, ElfFile

LAST = (1 << 64) - 1
ADDRESSES = st.one_of(st.integers(0, 60), st.integers(LAST - 30, LAST))
FAR = st.one_of(ADDRESSES, st.integers(0, 20_000))
FUNCTIONS = st.lists(st.tuples(ADDRESSES, st.integers(0, 40), st.binary(min_size=1, max_size=3)), max_size=20)


@given(FUNCTIONS, FUNCTIONS, ADDRESSES, st.one_of(st.none(), st.lists(ADDRESSES)))
def test_the_smallest_that_holds_it(
    first: list[tuple[int, int, bytes]], second: list[tuple[int, int, bytes]], address: int, others: list[int] | None
) -> None:
    """GIVEN functions of two tables that overlap as they like THEN one of the smallest around an address tells it, also
    where what will be asked for is known."""
    functions = Functions(None if others is None else [*others, address])
    functions.add_named(first)
    functions.at(address)  # it is sorted, and then added to
    functions.add_named(second)
    ranges = [(begin, min(begin + size, LAST), name) for begin, size, name in first + second]
    around = [(end - begin, name) for begin, end, name in ranges if begin <= address < end]
    least = min((size for size, _ in around), default=0)
    name = functions.at(address)
    assert name is None if not around else name in {name for size, name in around if size == least}


@given(st.lists(st.tuples(FAR, st.one_of(st.integers(0, 9_000), st.just(LAST)))), st.lists(FAR))
def test_a_quick_look(ranges: list[tuple[int, int]], addresses: list[int]) -> None:
    """GIVEN what will be asked for THEN of a symbol table those entries are kept that hold some of it."""
    table = b"".join(struct.pack("<IBBHQQ", 1, 18, 0, 1, begin, size) for begin, size in ranges)
    assert list(Functions().wanted(table)) == list(range(len(ranges)))
    held = [any(begin <= address < begin + size for address in addresses) for begin, size in ranges]
    assert list(Functions(addresses).wanted(table + b"cut")) == [index for index, holds in enumerate(held) if holds]


def test_what_breaks_off(tmp_path: Path) -> None:
    """GIVEN a table whose reading fails THEN what came before it is known."""

    def broken() -> list[tuple[int, int, bytes]]:
        yield 0x10, 8, b"known"
        raise ElfError("truncated")

    functions = Functions()
    with pytest.raises(ElfError):
        functions.add_named(broken())
    assert functions.at(0x12) == b"known"


def test_names_anywhere_in_a_large_string_table(tmp_path: Path) -> None:
    """GIVEN a string table of several megabytes, which is searched in parts THEN a symbol is found wherever its name
    lies, across two parts, too, and is told with its name."""
    source, library = tmp_path / "many.s", tmp_path / "libmany.so"
    names = [f"function_{number:05}_{'x' * 90}" for number in range(30_000)]
    with source.open("w") as text:
        for name in names:
            text.write(f".type {name}, @function\n.globl {name}\n{name}: ret\n.size {name}, 1\n")
    subprocess.run(["gcc", "-shared", "-nostdlib", source, "-o", library], check=True)
    rows = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout.splitlines()
    nm = {name: int(address, 16) for address, _, name in map(str.split, rows)}
    with ElfFile(str(library)) as file:
        strings = file.section(".strtab")
        assert strings is not None and strings.size > 3 << 20
        text = file.read(strings.offset, strings.size)
        # Those that lie across the ends of parts, whatever their size is, down to a page's.
        across = {
            text[text.rfind(b"\0", 0, at) + 1 : text.find(b"\0", at)].decode() for at in range(4096, len(text), 4096)
        }
        wanted = tuple(sorted(across & set(names)))
        assert len(wanted) > 500
        assert file.symbols(wanted) == {name: nm[name] for name in wanted}
        functions = Functions()
        functions.add(file.function_symbols(), file.name_at)
        assert {name: functions.at(nm[name]) for name in names} == {name: name.encode() for name in names}
        some = names[::1000]
        functions = Functions([nm[name] for name in some])
        functions.add(file.function_symbols(functions.wanted), file.name_at)
        assert {name: functions.at(nm[name]) for name in some} == {name: name.encode() for name in some}
