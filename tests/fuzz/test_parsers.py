"""Parsers of what the target, or a file, says: whatever the bytes, only the errors come out that their docs name."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snapshots import Snapshot, all_snapshots

from weft import _native
from weft.cpython.debug_offsets import COOKIE, debug_offsets_version, layout_from_debug_offsets
from weft.cpython.layout import Version
from weft.cpython.linetable import LineTable, LineTableError
from weft.errors import CoreFileError, LayoutError, MemoryReadError
from weft.target.core import Core
from weft.target.elf import DebugLink, ElfError, ElfFile
from weft.target.image import Image
from weft.target.maps import Mapping, Module, modules, parse_maps
from weft.target.unwinding import table_of_file

BASE = 0x10000
WORD = (1 << 64) - 1

many = settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

numbers = st.one_of(
    st.integers(0, 64), st.integers(0, 1 << 16), st.sampled_from([0xFFFF, 0xFFFFFFFF, WORD, WORD >> 1, 1 << 63])
)


def memory_of(data: bytes) -> _native.ImageMemory:
    image = _native.ImageMemory()
    image.add_bytes(BASE, data)
    return image


def changed(data: bytes, changes: list[tuple[int, int, int]]) -> bytes:
    """With some numbers of 1 to 8 bytes in other places."""
    out = bytearray(data)
    for at, size, value in changes if data else ():
        at %= len(out)
        out[at : at + size] = value.to_bytes(8, "little")[:size][: len(out) - at]
    return bytes(out)


places = st.one_of(st.integers(0, 31).map(lambda word: 8 * word), st.integers(0, 1 << 16))  # headers above all
changes = st.lists(st.tuples(places, st.sampled_from([1, 2, 4, 8]), numbers), max_size=12)


def real_tables() -> list[tuple[Version, bytes, int]]:
    """The line tables of the snapshots."""
    found = []
    for path in all_snapshots():
        snapshot = Snapshot.load(path)
        version = Version.from_hex(snapshot.layout["version"])
        found += [(version, bytes.fromhex(code[-1]), code[1]) for code in snapshot.walk["codes"]]
    return found


@many
@given(table=st.sampled_from(real_tables()), changes=changes, offset=st.integers(-4, 1 << 20))
def test_line_tables(table: tuple[Version, bytes, int], changes: list[tuple[int, int, int]], offset: int) -> None:
    """GIVEN the line tables of real code, damaged: positions are numbers that a capture can hold, or there are none."""
    version, data, first = table
    with suppress(LineTableError):
        position = LineTable(version, changed(data, changes), first).at(offset)
        assert all(0 <= number < 1 << 63 for number in position)


@pytest.mark.parametrize("version", [Version(3, 13), Version(3, 14), Version(3, 15)], ids=str)
@many
@given(words=st.lists(numbers, max_size=120), free_threaded=st.booleans(), level=st.integers(0, 255))
def test_debug_offsets(version: Version, words: list[int], free_threaded: bool, level: int) -> None:
    """GIVEN a table of debug offsets with any numbers in it, of any length."""
    head = COOKIE + struct.pack("<QQ", version.hex | level, free_threaded)
    memory = memory_of(head + struct.pack(f"<{len(words)}Q", *words))
    with suppress(LayoutError, MemoryReadError):
        layout = layout_from_debug_offsets(memory, BASE).layout  # type: ignore[arg-type]
        assert all(0 <= number < 1 << 32 for number in layout.numbers().values())


@many
@given(data=st.binary(max_size=32))
def test_debug_offsets_version(data: bytes) -> None:
    """GIVEN anything where a table of debug offsets may be."""
    with suppress(MemoryReadError):
        assert debug_offsets_version(memory_of(data), BASE) is None or data[:8] == COOKIE


LINE = "7f0000000000-7f0000001000 r-xp 00000000 08:01 123 /usr/lib/libx.so"


@many
@given(
    text=st.one_of(st.text(), st.lists(st.sampled_from([*LINE, *LINE.split(), " ", "\n", "(deleted)"])).map("".join))
)
def test_maps(text: str) -> None:
    """GIVEN any text for /proc/PID/maps: a path may hold any character, and stand in for columns that are not there."""
    found = parse_maps(text)
    assert len(found) <= text.count("\n") + 1
    assert sum(len(module.mappings) for module in modules(found)) == sum(mapping.is_file for mapping in found)


def small_elf() -> bytes:
    """A shared object with all that weft reads of one: segments, a GNU hash table, symbols, sections, a build-id."""
    strings = b"\0_PyRuntime\0Py_Version\0"
    section_names = b"\0.symtab\0.strtab\0.shstrtab\0.note.gnu.build-id\0.gnu_debuglink\0"
    note = struct.pack("<III", 4, 8, 3) + b"GNU\0" + bytes(range(8))
    link = b"x.debug\0\0\0\0\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 17, 0, 1, 0x100, 8) + struct.pack("<IBBHQQ", 12, 17, 0, 1, 0x108, 4)
    gnu_hash = struct.pack("<IIIIQI", 1, 1, 1, 0, WORD, 1)
    for name in b"_PyRuntime", b"Py_Version":
        hashed = 5381
        for byte in name:
            hashed = hashed * 33 + byte & 0xFFFFFFFF
        gnu_hash += struct.pack("<I", hashed & ~1 | (name == b"Py_Version"))
    at = 64 + 3 * 56
    parts = {}
    for name, part in ("strings", strings), ("names", section_names), ("note", note), ("link", link):
        parts[name] = at
        at += len(part) + 7 & ~7
    parts["symbols"] = at
    parts["hash"] = at + len(symbols)
    parts["dynamic"] = parts["hash"] + (len(gnu_hash) + 7 & ~7)
    tags = [(5, parts["strings"]), (6, parts["symbols"]), (0x6FFFFEF5, parts["hash"]), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    end = parts["dynamic"] + len(dynamic)
    sections = [
        (0, 0, 0, 0, 0),
        (1, 2, parts["symbols"], len(symbols), 2),
        (9, 3, parts["strings"], len(strings), 0),
        (17, 3, parts["names"], len(section_names), 0),
        (27, 7, parts["note"], len(note), 0),
        (46, 1, parts["link"], len(link), 0),
    ]
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, end, 0, 64, 56, 3, 64, 6, 3)
    out = bytearray(end)
    out[:64] = header
    segments = [(1, 6, 0, end), (2, 6, parts["dynamic"], len(dynamic)), (4, 4, parts["note"], len(note))]
    out[64 : 64 + 3 * 56] = b"".join(struct.pack("<IIQQQQQQ", k, f, o, o, o, n, n, 8) for k, f, o, n in segments)
    for name, part in {
        "strings": strings, "names": section_names, "note": note, "link": link, "symbols": symbols, "hash": gnu_hash,
        "dynamic": dynamic,
    }.items():  # fmt: skip
        out[parts[name] : parts[name] + len(part)] = part
    for name, kind, offset, size, linked in sections:
        out += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, linked, 0, 1, 24)
    return bytes(out)


ELF = small_elf()
NAMES = ("_PyRuntime", "Py_Version", "not_there")
FOUND = {"_PyRuntime": 0x100, "Py_Version": 0x108}


def image_of(data: bytes) -> Image:
    mapping = Mapping(BASE, BASE + len(data), "r-xp", 0, "08:01", 1, "/x")
    return Image(memory_of(data), Module((mapping,)))


def test_a_sound_elf(tmp_path: Path) -> None:
    """The image that the tests below damage can be read before it is damaged."""
    image = image_of(ELF)
    assert image.symbols(NAMES) == {name: BASE + address for name, address in FOUND.items()}
    assert image.build_id == "0001020304050607"
    path = tmp_path / "elf"
    path.write_bytes(ELF)
    with ElfFile(str(path)) as file:
        assert file.symbols(NAMES) == FOUND
        assert file.build_id == image.build_id
        assert file.debug_link == DebugLink("x.debug", 0)


@many
@given(changes=changes, size=st.integers(0, len(ELF)))
def test_elf_images(changes: list[tuple[int, int, int]], size: int) -> None:
    """GIVEN an ELF image in memory, cut and damaged."""
    data = changed(ELF, changes)[: max(size, 1)] if size % 3 == 0 else changed(ELF, changes)
    with suppress(ElfError, MemoryReadError):
        image = image_of(data)
        assert image.build_id is None or len(image.build_id) <= 2 << 16
        assert set(image.symbols(NAMES)) <= set(NAMES)
        assert len(image.writable_ranges()) <= 1024


def small_core() -> bytes:
    """A core file of one thread, with a mapped file and a segment of memory."""
    registers = bytearray(112 + 27 * 8)
    struct.pack_into("<i", registers, 32, 77)
    notes = b""
    mapped = struct.pack("<QQQQQ", 1, 4096, BASE, BASE + 4096, 0) + b"/usr/lib/libx.so\0"
    auxiliary = struct.pack("<QQQQ", 3, BASE + 64, 0, 0)
    for kind, data in (1, bytes(registers)), (3, bytes(136)), (0x46494C45, mapped), (6, auxiliary):
        notes += struct.pack("<III", 5, len(data), kind) + b"CORE\0\0\0\0" + data + bytes(-len(data) % 4)
    at = 64 + 2 * 56
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 4, 4, at, 0, 0, len(notes), len(notes), 8)
    segments += struct.pack("<IIQQQQQQ", 1, 6, at + len(notes), BASE, 0, len(ELF), len(ELF), 8)
    return header + segments + notes + ELF


CORE = small_core()


def test_a_sound_core(tmp_path: Path) -> None:
    """The core file that the test below damages can be read before it is damaged."""
    path = tmp_path / "core"
    path.write_bytes(CORE)
    core = Core(path)
    assert [thread.tid for thread in core.threads] == [77]
    assert core.executable == "/usr/lib/libx.so"
    assert core.memory.read(BASE, len(ELF)) == ELF


@many
@given(changes=changes, size=st.integers(0, len(CORE)))
def test_core_files(changes: list[tuple[int, int, int]], size: int, tmp_path: Path) -> None:
    """GIVEN a core file, cut and damaged."""
    path = tmp_path / "core"
    data = changed(CORE, changes)
    path.write_bytes(data[:size] if size % 3 == 0 else data)
    with suppress(CoreFileError):
        core = Core(path)
        assert core.namespace_ids().keys() == {thread.tid for thread in core.threads}
        assert all(mapping.start <= mapping.end for mapping in core.maps())
        assert all(isinstance(line, str) for line in core.problems())


@many
@given(changes=changes, size=st.integers(0, len(ELF)))
def test_elf_files(changes: list[tuple[int, int, int]], size: int, tmp_path: Path) -> None:
    """GIVEN an ELF file on disk, cut and damaged."""
    path = tmp_path / "elf"
    data = changed(ELF, changes)
    path.write_bytes(data[:size] if size % 3 == 0 else data)
    with suppress(ElfError), ElfFile(str(path)) as file:
        for section in file.sections:
            with suppress(ElfError):
                file.contents(section.name)
        assert file.debug_link is None or "/" not in file.debug_link.name
        assert file.build_id is None or isinstance(file.build_id, str)
        assert set(file.symbols(NAMES)) <= set(NAMES)
        with suppress(ElfError):
            for _, _, place in file.function_symbols():
                assert len(file.name_at(place)) <= 4096


def elf_with_symbols(symbols: bytes, strings: bytes) -> bytes:
    """An ELF file with a symbol table and nothing else."""
    section_names = b"\0.symtab\0.strtab\0"
    parts = [(1, 2, symbols, 2), (9, 3, strings, 0), (0, 3, section_names, 0)]
    header = b"\x7fELF\2\1\1" + bytes(9)
    at = 64 + sum(len(part) for _, _, part, _ in parts)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 56, 0, 64, 4, 3)
    data, table = header, bytes(64)
    for name, kind, part, linked in parts:
        table += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, len(data), len(part), linked, 0, 1, 24)
        data += part
    return data + table


def test_names_that_overlap(tmp_path: Path) -> None:
    """GIVEN a million symbols, each of whose names is the rest of one long string THEN they are refused, not told."""
    strings = b"\0" + b"a" * (1 << 16) + b"\0"
    path = tmp_path / "elf"
    for count in (100, 1 << 20):
        symbols = b"".join(struct.pack("<IBBHQQ", 1 + at % (1 << 16), 18, 0, 1, at, 8) for at in range(count))
        path.write_bytes(elf_with_symbols(symbols, strings))
        with ElfFile(str(path)) as file:
            if count == 100:
                assert {len(name) for _, _, name in file.functions()} == {4096}
            else:
                with pytest.raises(ElfError, match="overlap"):
                    file.functions()


def test_an_object_beyond_all_addresses(tmp_path: Path) -> None:
    """GIVEN a relocatable object whose section and symbol together lie beyond the last address THEN it can be read."""
    path = tmp_path / "elf"
    symbols = struct.pack("<IBBHQQ", 1, 18, 0, 1, 0x1010, 8)  # in the first section
    data = bytearray(elf_with_symbols(symbols, b"\0f\0"))
    data[16:18] = (1).to_bytes(2, "little")
    first = int.from_bytes(data[40:48], "little") + 64
    data[first + 16 : first + 24] = ((1 << 64) - 0x1000).to_bytes(8, "little")
    path.write_bytes(data)
    with ElfFile(str(path)) as file:
        assert [(address, size) for address, size, _ in file.function_symbols()] == [(0x10, 8)]
        assert not table_of_file(file).covers(0x10)


def test_a_table_without_end(tmp_path: Path) -> None:
    """GIVEN a symbol table of more entries than any module has THEN it is refused."""
    path = tmp_path / "elf"
    path.write_bytes(elf_with_symbols(bytes(24 * (1 << 22) + 24), b"\0"))
    with ElfFile(str(path)) as file, pytest.raises(ElfError, match="4,194,305 entries"):
        file.functions()
