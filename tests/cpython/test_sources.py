"""Where layouts come from when no table fits: DWARF, its cache, separate debug files; and what damage does to each."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreters import Interpreter, all_interpreters
from running import StartTarget

from weft.cpython import sources
from weft.cpython.cache import cached_layout, keep_layout
from weft.cpython.debug_offsets import COOKIE, layout_from_debug_offsets
from weft.cpython.dwarf import layout_from_dwarf
from weft.cpython.layout import Layout, Source, Version
from weft.cpython.locate import find_runtime
from weft.cpython.tables import layouts_from_tables
from weft.errors import LayoutError, MemoryReadError
from weft.target.elf import ElfError, ElfFile
from weft.target.image import Image
from weft.target.maps import modules
from weft.target.process import Process

RELEASES = [Version(2, 7, 18), *(Version(3, minor) for minor in range(6, 16))]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "weft/layouts"


def with_dwarf() -> tuple[Interpreter, Path]:
    """An interpreter whose shared library has DWARF, and that library."""
    for interpreter in all_interpreters():
        for library in interpreter.executable.parent.parent.glob("lib/libpython?.*.so.1.0"):
            if interpreter.chroot is None and interpreter.version < (3, 13):
                with ElfFile(str(library)) as file:
                    if file.section(".debug_info"):
                        return interpreter, library
    pytest.skip("no interpreter with DWARF")


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_release_has_a_table(release: Version) -> None:
    """Also those that no machine of ours has: the tables need to be there for the oldest ones most of all."""
    source = layouts_from_tables(release, free_threaded=False)[0]
    assert source.in_range
    assert source.layout.version == release.hex
    assert (source.runtime is None) == (release < (3, 7))


@pytest.mark.parametrize("micro", [0, 3, 4, 17])
def test_a_release_in_the_midst_of_which_a_struct_grew(micro: int) -> None:
    """3.7.4 made PyGC_Head larger (bpo-27987), and all of _PyRuntime behind it moved."""
    first, second = layouts_from_tables(Version(3, 7, micro))
    assert first.runtime
    assert first.runtime.current_thread == (1392 if micro < 4 else 1480)
    assert first.in_range
    assert not second.in_range


def test_dwarf_where_no_table_fits(start_target: StartTarget, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """A release that weft has no table of: its DWARF is read once, and kept. A kept file that is damaged or of another
    version is not used."""
    interpreter, _ = with_dwarf()
    monkeypatch.setattr(sources, "layouts_from_tables", lambda version: [])
    pid = start_target(interpreter, "blocked.py").pid
    first = find_runtime(pid)
    again = find_runtime(pid)
    assert first.layout_source == "DWARF"
    assert again.layout_source == "DWARF, kept"
    assert again == first._replace(layout_source="DWARF, kept")
    (kept,) = cache.iterdir()
    for damaged in (
        "{",
        "[]",
        json.dumps({"layout": {}, "runtime": None}),
        json.dumps({"layout": asdict(first.layout) | {"interp_next": "8"}, "runtime": None}),
        json.dumps({"layout": asdict(first.layout) | {"version": 1}, "runtime": None}),
    ):
        kept.write_text(damaged)
        assert find_runtime(pid).layout_source == "DWARF"


def test_a_wrong_table_is_not_believed(start_target: StartTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table says something else than the build, as for a debug build or a release with another struct: the proof
    fails, and the next source is tried. Where there is none, the one line says what failed."""
    interpreter, library = with_dwarf()
    layout, runtime = (source := layout_from_dwarf(str(library), Version(*interpreter.version))).layout, source.runtime
    wrong = Source(replace(layout, code_name=layout.code_name + 16), runtime, "table of another build")
    monkeypatch.setattr(sources, "layouts_from_tables", lambda version: [wrong])
    pid = start_target(interpreter, "blocked.py").pid
    assert find_runtime(pid).layout_source == "DWARF"
    monkeypatch.setattr(sources, "_dwarf_files", lambda *_: iter(()))
    monkeypatch.setattr(sources, "cached_layout", lambda *_: None)
    with pytest.raises(LayoutError, match=r"^the layout of CPython [\d.]+ is not proven: .*$"):
        find_runtime(pid)


def test_a_separate_debug_file(tmp_path: Path, program: Callable[[str], str]) -> None:
    """The DWARF lies in a file of its own beside the module, as distributions do it. A file of that name that belongs
    to another build is left alone."""
    objcopy = program("objcopy")
    interpreter, library = with_dwarf()
    engine, debug = tmp_path / "engine.so", tmp_path / ".debug/engine.debug"
    debug.parent.mkdir()
    subprocess.run([objcopy, "--only-keep-debug", library, debug], check=True)
    subprocess.run([objcopy, "--strip-debug", f"--add-gnu-debuglink={debug}", library, engine], check=True)
    code = f"import ctypes, sys; ctypes.CDLL({str(engine)!r}); print(flush=True); sys.stdin.read()"
    own = next(i for i in reversed(all_interpreters()) if i.chroot is None)
    with subprocess.Popen([*own.command, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"\n"
        process = Process(holder.pid)
        image = next(Image(process.memory, m) for m in modules(process.maps()) if m.path == str(engine))
        version = Version(*interpreter.version)
        names = [source.name for source in sources.layouts(process, image, version)]
        assert "DWARF" in names
        shutil.rmtree(tmp_path / "weft")
        raw = debug.read_bytes()
        build_id = bytes.fromhex(image.build_id or "")
        debug.write_bytes(raw.replace(build_id, bytes(len(build_id))))
        assert "DWARF" not in [source.name for source in sources.layouts(process, image, version)]
        holder.communicate()


def test_the_cache_survives_what_it_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    source = layouts_from_tables(Version(3, 12, 1))[0]
    keep_layout("00", source)
    assert cached_layout("00", source.layout.version) is None


class Bytes:
    """Memory that is one block at address 4096."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, address: int, size: int) -> bytes:
        data = self.data[address - 4096 : address - 4096 + size] if address >= 4096 else b""
        if len(data) != size:
            raise MemoryReadError(address, size)
        return data


@given(version=st.sampled_from([0x030D00F0, 0x030E00F0, 0x030F00F0, 0x031000F0, 0]), rest=st.binary(max_size=1000))
def test_damaged_debug_offsets(version: int, rest: bytes) -> None:
    """A table with any numbers gives a layout or one of two errors; no offset of it is out of bounds."""
    table = COOKIE + version.to_bytes(8, "little") + rest
    try:
        layout = layout_from_debug_offsets(Bytes(table), 4096).layout
    except (LayoutError, MemoryReadError):
        return
    assert all(value is None or value < 1 << 25 for name, value in asdict(layout).items() if name != "version")


def damaged_files() -> st.SearchStrategy[tuple[int, bytes]]:
    return st.tuples(st.integers(0, 4096), st.binary(min_size=1, max_size=64))


@settings(max_examples=300, deadline=None)
@given(damage=damaged_files())
def test_damaged_elf_files(tmp_path_factory: pytest.TempPathFactory, damage: tuple[int, bytes]) -> None:
    """A small ELF file with bytes changed anywhere: read, or refused with ElfError."""
    at, new = damage
    binary = Path("/bin/true").read_bytes()
    binary = binary[: at % len(binary)] + new + binary[at % len(binary) + len(new) :]
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(binary)
    try:
        with ElfFile(str(path)) as file:
            assert isinstance(file.sections, list)
            file.symbols(("main", "_PyRuntime"))
            assert file.build_id is None or isinstance(file.build_id, str)
            assert file.debug_link is None or "/" not in file.debug_link.name
    except ElfError:
        return


def test_no_dwarf_is_one_line(tmp_path: Path) -> None:
    """Not ELF, not there, no DWARF, DWARF of something else."""
    text = tmp_path / "text"
    text.write_text("not ELF")
    for path in (text, tmp_path / "nothing", Path("/bin/true")):
        with pytest.raises(LayoutError) as error:
            layout_from_dwarf(str(path), Version(3, 12))
        assert "\n" not in str(error.value)


def test_layouts_go_to_cpp_as_numbers() -> None:
    """None is kAbsent of native/python/layout.h, and the names are its names, in its order."""
    header = Path(__file__).parents[2] / "native/python/layout.h"
    names = [line.split("X(")[1].split(")")[0] for line in header.read_text().splitlines() if "    X(" in line]
    layout = layouts_from_tables(Version(2, 7, 18))[0].layout
    assert list(layout.numbers()) == names
    assert layout.numbers()["str_state"] == 0xFFFFFFFF
    assert isinstance(layout, Layout)
