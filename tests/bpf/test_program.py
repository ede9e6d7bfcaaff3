"""The loader: what it makes of an object that the compiler has made, and what it says when the kernel refuses."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from privileges import ordinary
from weft_command import wait_until
from zig import compile_with_zig

from weft import _native
from weft.collect.bpf import btf
from weft.collect.bpf.kernel import Map, MapKind, ProgramKind, enable_clock, load_btf, open_clocks
from weft.collect.bpf.program import Object
from weft.errors import CollectorError
from weft.target.elf import ElfFile

BPF = Path(__file__).resolve().parents[2] / "bpf"
FLAGS = [
    "-mcpu=v3",
    "-O2",
    "-g",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
]

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")

# A program that comes to functions in every way: it calls one that calls another, and gives a third to the kernel.
FUNCTIONS = """
#include "bpf.h"
struct told { uint64_t called, looped, other; uint32_t tgid, of_task; };
MAP(first_map, uint64_t);
MAP(told_map, struct told);
NOT_INLINE uint64_t inner(uint64_t n) { HIDE(n); return n + 5; }
NOT_INLINE uint64_t outer(uint64_t n) { HIDE(n); return inner(n) * 3; }
static long step(uint32_t index, uint64_t* sum) { *sum += inner(index); return 0; }
SECTION("perf_event") int program(void* context) {
    const uint32_t zero = 0;
    struct told* told = map_lookup(&told_map, &zero);
    uint64_t* other = map_lookup(&first_map, &zero);
    if (!told || !other) return 0;
    uint64_t sum = 0;
    loop(4, step, &sum, 0);
    told->looped = sum;
    told->other = *other;
    told->called = outer(2);
    return 0;
}
char gpl[] SECTION("license") = "GPL";
"""

# task_struct as we declare it has one field, at its beginning: only the kernel knows where that is.
RELOCATES = """
#include "bpf.h"
struct told { uint32_t by_helper, by_field; };
MAP(told_map, struct told);
struct task_struct___own { int tgid; } RELOCATED;
SECTION("perf_event") int program(void* context) {
    const uint32_t zero = 0;
    struct told* told = map_lookup(&told_map, &zero);
    struct task_struct___own* task = (void*)current_task();
    const uint32_t pid = current_pid_tgid() >> 32;
    if (told && pid == PID) {
        told->by_field = task->tgid;
        told->by_helper = pid;
    }
    return 0;
}
char gpl[] SECTION("license") = "GPL";
"""

OUT_OF_BOUNDS = """
#include "bpf.h"
MAP(told_map, uint64_t);
SECTION("perf_event") int program(void* context) {
    const uint32_t zero = 0;
    uint64_t* told = map_lookup(&told_map, &zero);
    return told ? told[1] : 0;
}
char gpl[] SECTION("license") = "GPL";
"""

OUT_OF_BOUNDS_WHERE_WANTED = """
#include "bpf.h"
MAP(told_map, uint64_t);
SECTION("perf_event") int program(void* context) {
    const uint32_t zero = 0;
    uint64_t* told = map_lookup(&told_map, &zero);
    return wants_native() && told ? told[1] : 0;
}
char gpl[] SECTION("license") = "GPL";
"""

DOES_NOTHING = """
#include "bpf.h"
SECTION("perf_event") int program(void* context) { return 0; }
char gpl[] SECTION("license") = "GPL";
"""

Compile = Callable[..., bytes]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile a source: its object."""

    def compile_(source: str, *flags: str) -> bytes:
        path = tmp_path / "x.bpf.c"
        path.write_text(source)
        compile_with_zig(tmp_path / "x.o", *FLAGS, *flags, "-I", BPF, "-c", path, target="bpfel-freestanding")
        return (tmp_path / "x.o").read_bytes()

    return compile_


def section(data: bytes, name: str) -> bytes:
    with ElfFile.of_bytes("x.o", data) as file:
        contents = file.contents(name)
    assert contents is not None
    return contents


def told_by(program: Object, maps: dict[str, Map]) -> bytes:
    """What a program leaves in `told_map` once it has run on the CPU that this is running on."""
    empty = maps["told_map"][bytes(4)]
    loaded = program.load(ProgramKind.PERF_EVENT, "perf_event", maps)
    clocks = [clock for cpu in os.sched_getaffinity(0) for clock in open_clocks(cpu, [1_000_000], loaded)]
    for clock in clocks:
        enable_clock(clock)
    wait_until(lambda: maps["told_map"][bytes(4)] != empty, "it has run")
    for clock in clocks:
        clock.close()
    loaded.close()
    return maps["told_map"][bytes(4)]


def test_sizes(tmp_path: Path) -> None:
    """THEN structs have the sizes that the compiler gives them on the host, from the same header."""
    names = ("weft_process", "weft_rule", "weft_sample", "weft_table", "weft_mapping", "weft_state")
    source = tmp_path / "sizes.c"
    lines = [f'printf("%zu\\n", sizeof(struct {name}));' for name in names]
    source.write_text("\n".join(["#include <stdio.h>", '#include "abi.h"', "int main(void) {", *lines, "}"]))
    program = compile_with_zig(tmp_path / "sizes", "-I", BPF, source)
    told = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    compiled = Object(_native.BPF_OBJECT)
    assert [compiled.size_of(name) for name in names] == [int(line) for line in told.split()]
    with pytest.raises(KeyError):
        compiled.size_of("no_such_struct")


@root_only
def test_sections_are_completed(compiled: Compile) -> None:
    """GIVEN the types as the compiler leaves them, sections without sizes, variables without places THEN the kernel
    takes them only once the loader has filled those in, and says what it misses before."""
    types = section(compiled(FUNCTIONS), ".BTF")
    with pytest.raises(CollectorError, match=r"the kernel refuses the BPF types: Invalid argument; .*size"):
        load_btf(types)
    places = {"first_map": 0, "told_map": 8, "gpl": 0}
    load_btf(btf.with_sections(types, {".maps": 16, "license": 4}, places)).close()
    overlapping = {**places, "told_map": 4}
    with pytest.raises(CollectorError, match="the kernel refuses the BPF types"):
        load_btf(btf.with_sections(types, {".maps": 16, "license": 4}, overlapping))


def test_records_of_a_function(compiled: Compile) -> None:
    """THEN what .BTF.ext tells of a section is found by where a function lies in it, counted from its begin."""
    data = compiled(FUNCTIONS)
    functions, lines, _ = btf.extensions(section(data, ".BTF"), section(data, ".BTF.ext"))
    text = len(section(data, ".text"))
    begins = [offset for offset, _ in functions.within(".text", 0, text)]
    assert begins[0] == 0
    assert begins == sorted(set(begins))
    for begin, end in zip(begins, [*begins[1:], text], strict=True):
        assert [offset for offset, _ in functions.within(".text", begin, end)] == [0]
        inside = [offset for offset, _ in lines.within(".text", begin, end)]
        assert inside[0] == 0
        assert all(0 <= offset < end - begin for offset in inside)
    assert not list(functions.within("no_such_section", 0, text))


@root_only
def test_functions_and_maps(compiled: Compile) -> None:
    """GIVEN a program that calls functions, through another and through the kernel, and reads two maps THEN each is the
    one that the source says."""
    data = compiled(FUNCTIONS)
    program = Object(data)
    maps = {
        "told_map": Map(MapKind.ARRAY, 4, program.size_of("told"), 1),
        "first_map": Map(MapKind.ARRAY, 4, 8, 1),
    }
    maps["first_map"][bytes(4)] = struct.pack("<Q", 77)
    called, looped, other, *_ = struct.unpack_from("<3Q", told_by(program, maps))
    assert (called, looped, other) == ((2 + 5) * 3, sum(range(4)) + 4 * 5, 77)
    with pytest.raises(KeyError):
        program.load(ProgramKind.PERF_EVENT, "perf_event", {"told_map": maps["told_map"]})


@root_only
def test_what_is_not_wanted(compiled: Compile) -> None:
    """GIVEN code that is wrong, and run only where native stacks are wanted THEN the verifier refuses it, and does
    not follow it where they are not."""
    program = Object(compiled(OUT_OF_BOUNDS_WHERE_WANTED))
    values: dict[str, Map | int] = {"told_map": Map(MapKind.ARRAY, 4, 8, 1)}
    program.load(ProgramKind.PERF_EVENT, "perf_event", values | {"native_wanted": 0}).close()
    with pytest.raises(CollectorError, match="invalid access to map value"):
        program.load(ProgramKind.PERF_EVENT, "perf_event", values | {"native_wanted": 1})


@root_only
def test_fields_of_the_kernel(compiled: Compile) -> None:
    """GIVEN a struct of the kernel of which we know one field, and not where it is THEN the kernel finds it."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            program = Object(compiled(RELOCATES, f"-DPID={busy.pid}"))
            maps = {"told_map": Map(MapKind.ARRAY, 4, program.size_of("told"), 1)}
            assert struct.unpack("<II", told_by(program, maps)) == (busy.pid, busy.pid)
        finally:
            busy.kill()


@root_only
def test_a_field_that_no_kernel_has(compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """THEN the kernel refuses the program, in one line that says so; or that it tells of no fields at all."""
    program = Object(
        compiled(RELOCATES.replace("tgid;", "no_such_field;").replace("->tgid", "->no_such_field"), "-DPID=1")
    )
    maps = {"told_map": Map(MapKind.ARRAY, 4, program.size_of("told"), 1)}
    with pytest.raises(CollectorError) as refused:
        program.load(ProgramKind.PERF_EVENT, "perf_event", maps)
    assert str(refused.value).startswith("the kernel refuses the BPF program: ")
    assert "\n" not in str(refused.value)
    monkeypatch.setattr("weft.collect.bpf.kernel._KERNEL_BTF", tmp_path / "vmlinux")
    with pytest.raises(CollectorError, match="this kernel does not tell the types of its own structures"):
        program.load(ProgramKind.PERF_EVENT, "perf_event", maps)


@root_only
def test_refused_by_the_verifier(compiled: Compile) -> None:
    """GIVEN a program that reads behind a map's value THEN it is refused in the verifier's words."""
    program = Object(compiled(OUT_OF_BOUNDS))
    with pytest.raises(
        CollectorError, match=r"the kernel refuses the BPF program: Permission denied; .*invalid access to map"
    ):
        program.load(ProgramKind.PERF_EVENT, "perf_event", {"told_map": Map(MapKind.ARRAY, 4, 8, 1)})


@root_only
def test_refused_to_ordinary_users(compiled: Compile, tmp_path: Path) -> None:
    """GIVEN a user without rights THEN it says that these are missing, whatever the kernel had to say."""
    (tmp_path / "nothing.o").write_bytes(compiled(DOES_NOTHING))
    code = (
        "import sys; from pathlib import Path; from weft.collect.bpf.program import Object\n"
        "from weft.collect.bpf.kernel import ProgramKind\n"
        "from weft.errors import CollectorError\n"
        "try: Object(sys.stdin.buffer.read()).load(ProgramKind.PERF_EVENT, 'perf_event', {})\n"
        "except CollectorError as error: print(error)\n"
    )
    with (tmp_path / "nothing.o").open("rb") as file:
        run = subprocess.run(
            [*ordinary(), sys.executable, "-c", code], check=True, stdin=file, capture_output=True, text=True
        )
    assert run.stdout == "the kernel refuses the BPF types: Operation not permitted\n"


@root_only
def test_entries_of_maps() -> None:
    """THEN entries come, are replaced and go, and a key that is not there is a KeyError."""
    entries = Map(MapKind.HASH, 4, 8, 2)
    one, two, three = (struct.pack("<I", number) for number in (1, 2, 3))
    entries[one] = b"12345678"
    entries[one] = b"abc"
    entries[two] = bytes(8)
    assert entries[one] == b"abc".ljust(8, b"\0")
    with pytest.raises(OSError, match="Argument list too long"):
        entries[three] = bytes(8)  # it is full
    del entries[one]
    with pytest.raises(KeyError):
        entries[one]
    entries[three] = b"third"
    assert entries[three] == b"third".ljust(8, b"\0")


@root_only
def test_memory_of_maps() -> None:
    """THEN what is written through an array's memory is read by its key, and nothing beside it is touched."""
    array = Map(MapKind.ARRAY, 4, 16, 300, 1 << 10)
    array[struct.pack("<I", 255)] = array[struct.pack("<I", 257)] = b"x" * 16
    array.write(16 * 256, bytes(range(16)))  # where a page begins
    array.write(16 * 299 + 4, b"abc")
    array.write(16 * 255 + 8, b"y" * 8 + b"z" * 3)  # over its end
    array.write(16 * 300, b"")
    assert array[struct.pack("<I", 255)] == b"x" * 8 + b"y" * 8
    assert array[struct.pack("<I", 256)] == b"zzz" + bytes(range(3, 16))
    assert array[struct.pack("<I", 257)] == b"x" * 16
    assert array[struct.pack("<I", 299)] == b"\0\0\0\0abc".ljust(16, b"\0")
    with pytest.raises(OSError, match="Invalid argument"):
        array.write(2 * mmap.PAGESIZE, b"beyond")
