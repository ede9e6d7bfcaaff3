"""Finding the runtime and proving its layout, over every interpreter on the machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters, without_names
from running import StartTarget, target_env
from zig import compile_with_zig

from weft.cpython import check
from weft.cpython.check import NotReadyError, prove
from weft.cpython.debug_offsets import layout_from_debug_offsets
from weft.cpython.dwarf import layout_from_dwarf
from weft.cpython.layout import FIELDS, Layout, RuntimeAddresses, Source
from weft.cpython.locate import Runtime, find_runtime
from weft.cpython.scan import find_heads, find_runtimes, find_version
from weft.cpython.tables import layouts_from_tables
from weft.errors import LayoutError, MemoryReadError, NotPythonError
from weft.target.image import Image
from weft.target.maps import modules
from weft.target.memory import Memory, read_u64
from weft.target.namespaces import open_module
from weft.target.process import Process

# What no proof can show to be wrong, shifted by 8 bytes; docs/design/0002-layouts.md tells why.
CONSTANTS = {"version", "pointer_size", "free_threaded", "names_are_bytes", "instruction_kind", "frame_code_tags"}
CONSTANTS |= {"frame_owner_shim", "gil_size", "thread_size", "frame_size"}
UNPROVABLE = {"frame_localsplus", "interp_code_generation", "thread_cframe", "thread_holds_gil"}
UNPROVABLE_27 = {"frame_instruction"}
UNPROVABLE_FREE_THREADED = {"interp_gil", "gil_locked", "gil_last_holder"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No layouts that were kept before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def blocked(interpreter: Interpreter, start_target: StartTarget) -> Process:
    """Four threads that stand still, one in a read, and a subinterpreter where there is that."""
    return Process(start_target(interpreter, "blocked.py", "sub").pid)


def image_of(process: Process, runtime: Runtime) -> Image:
    return next(Image(process.memory, m) for m in modules(process.maps()) if m.path == runtime.module)


def prove_now(process: Process, layout: Layout, addresses: RuntimeAddresses, memory: Memory | None = None) -> None:
    prove(memory or process.memory, layout, addresses, lambda: process.namespace_ids().values())


def test_found_and_proven(interpreter: Interpreter, blocked: Process, start_target: StartTarget) -> None:
    """The version must be the interpreter's, the threads those that the kernel has, the interpreters as many as the
    target made: a head that points to the main one would miss the others."""
    runtime = find_runtime(blocked)
    assert runtime.version[:3] == interpreter.version
    assert runtime.layout.free_threaded == interpreter.free_threaded
    layout, memory = runtime.layout, blocked.memory
    states, interpreters = [], 0
    interp = read_u64(memory, runtime.addresses.interpreters_head)
    while interp:
        interpreters += 1
        state = read_u64(memory, interp + layout.interp_threads_head)
        while state:
            states.append(state)
            state = read_u64(memory, state + layout.thread_next)
        interp = read_u64(memory, interp + layout.interp_next)
    assert interpreters == (2 if interpreter.version >= (3, 8) else 1)
    pthreads = {read_u64(memory, state + layout.thread_pthread) for state in states}
    assert len(pthreads) == len(blocked.threads()) == 4
    if layout.thread_native_id is not None:
        native = {read_u64(memory, state + layout.thread_native_id) for state in states}
        assert native == set(blocked.namespace_ids().values())


def sources(process: Process, runtime: Runtime) -> Iterator[Source]:
    """Every way to a layout that this target has."""
    if runtime.version >= (3, 13):
        start = next(find_runtimes(image_of(process, runtime)))
        yield layout_from_debug_offsets(process.memory, start)
    yield next(s for s in layouts_from_tables(runtime.version, free_threaded=bool(runtime.layout.free_threaded)))
    file = open_module(process.pid, image_of(process, runtime))
    assert file
    with file:
        if file.section(".debug_info"):  # Debian's are stripped
            yield layout_from_dwarf(file.path, runtime.version)


def test_all_sources_agree(blocked: Process) -> None:
    """Debug offsets, tables and DWARF come by different ways to the same numbers, and each is proven."""
    runtime = find_runtime(blocked)
    for source in sources(blocked, runtime):
        layout = source.layout
        if runtime.version < (3, 7):  # the GIL is no struct; its size comes from the process
            layout = replace(layout, gil_size=runtime.layout.gil_size)
        assert layout == runtime.layout, source.name
        prove_now(blocked, source.layout, runtime.addresses)


def test_a_shifted_offset_is_not_proven(
    interpreter: Interpreter, blocked: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each offset in turn is 8 bytes too high, as in a release whose struct grew by a pointer. The target stands
    still, so one attempt tells."""
    runtime = find_runtime(blocked)
    monkeypatch.setattr(check, "_ATTEMPTS", 1)
    layout = runtime.layout
    room = replace(layout, thread_size=layout.thread_size + 8, frame_size=layout.frame_size + 8)
    proven = set()
    for field in FIELDS:
        value = getattr(layout, field)
        if value is None or field in CONSTANTS:
            continue
        try:
            prove_now(blocked, replace(room, **{field: value + 8}), runtime.addresses)
        except (LayoutError, NotReadyError) as error:
            assert "\n" not in str(error)
        else:
            proven.add(field)
    unprovable = UNPROVABLE | (UNPROVABLE_27 if interpreter.version < (3,) else set())
    assert proven <= unprovable | (UNPROVABLE_FREE_THREADED if interpreter.free_threaded else set())


def test_found_by_its_memory_alone(blocked: Process) -> None:
    """As if the module had no symbol and no section: the version from the text that Py_GetVersion() keeps, the head
    from a pointer chain that closes. With a subinterpreter other variables point to the main one, and are not it."""
    runtime = find_runtime(blocked)
    image = image_of(blocked, runtime)
    assert find_version(image) == runtime.version
    assert find_heads(image, runtime.layout, blocked.maps())[0] == runtime.addresses.interpreters_head
    tables = [read_u64(blocked.memory, start) for start in find_runtimes(image)]
    assert len(tables) == (1 if runtime.version >= (3, 13) else 0)


BUSY = """
import sys, threading
def a(): pass
def b(): a(); a()
def gen(): yield b()
def run():
    while True:
        b()
        for x in gen(): pass
def churn():
    while True:
        t = threading.Thread(target=a); t.start(); t.join()
for target in run, run, churn:
    t = threading.Thread(target=target); t.daemon = True; t.start()
sys.stdout.write("{}\\n"); sys.stdout.flush()
run()
"""


def test_proven_while_it_runs(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """Three threads call all the time and a fourth starts and joins others: nearly every chain is torn as it is read,
    and thread states come and go. The proof must still be had, each time."""
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    process = Process(start_target(interpreter, script).pid)
    for _ in range(5):
        assert find_runtime(process).version[:3] == interpreter.version


class Overlay:
    """Memory in which some words are others."""

    def __init__(self, memory: Memory, words: dict[int, int]) -> None:
        self.memory = memory
        self.words = words

    def read(self, address: int, size: int) -> bytes:
        data = bytearray(self.memory.read(address, size))
        for at, word in self.words.items():
            if address <= at and at + 8 <= address + size:
                data[at - address : at - address + 8] = word.to_bytes(8, "little")
        return bytes(data)


@pytest.fixture
def current(start_target: StartTarget) -> tuple[Process, Runtime]:
    """A target of the Python that runs the tests."""
    own = next(i for i in all_interpreters() if i.version == sys.version_info[:3] and i.chroot is None)
    process = Process(start_target(own, "blocked.py").pid)
    return process, find_runtime(process)


@pytest.mark.parametrize("circle", ["interpreters", "threads", "frames"])
def test_circles_end(current: tuple[Process, Runtime], circle: str) -> None:
    """Lists that lead back to themselves, as in a hostile target: the proof fails, it does not walk on."""
    process, runtime = current
    layout, memory = runtime.layout, process.memory
    interp = read_u64(memory, runtime.addresses.interpreters_head)
    words = {}
    if circle == "interpreters":
        words[interp + layout.interp_next] = interp
    state = read_u64(memory, interp + layout.interp_threads_head)
    if circle == "threads":
        words[state + layout.thread_next] = state
    while state and circle == "frames":
        frame = read_u64(memory, state + layout.thread_frame)
        if layout.cframe_frame is not None:
            frame = read_u64(memory, frame + layout.cframe_frame)
        words[frame + layout.frame_previous] = frame
        state = read_u64(memory, state + layout.thread_next)
    with pytest.raises(LayoutError, match="runs in a circle"):
        prove_now(process, layout, runtime.addresses, Overlay(memory, words))


class AddressesByte:
    """Memory in which the byte of a frame at `at` is 1 in all frames, as that of an address may be by chance."""

    def __init__(self, memory: Memory, layout: Layout, at: int) -> None:
        self.memory = memory
        self.frame_size = layout.frame_size
        self.at = at

    def read(self, address: int, size: int) -> bytes:
        data = bytearray(self.memory.read(address, size))
        if size == self.frame_size:
            data[self.at] = 1
        return bytes(data)


def test_the_byte_of_an_address_marks_no_entry_frame(start_target: StartTarget) -> None:
    """GIVEN 3.11, where behind whether a frame is an entry frame lie addresses, which differ in no high byte WHEN the
    field is eight bytes too high and that byte is 1 THEN the layout is not proven."""
    process = Process(start_target(next(i for i in all_interpreters() if i.version[:2] == (3, 11)), "blocked.py").pid)
    runtime = find_runtime(process)
    assert runtime.layout.frame_is_entry is not None
    at = runtime.layout.frame_is_entry + 8
    layout = replace(runtime.layout, frame_is_entry=at, frame_size=runtime.layout.frame_size + 8)
    prove_now(process, replace(layout, frame_is_entry=at - 8), runtime.addresses)
    with pytest.raises(LayoutError, match=r"\d entry frames and [12] cframes"):
        prove_now(process, layout, runtime.addresses, AddressesByte(process.memory, layout, at))


class Recorded:
    """Memory that remembers what was read of it: address and size."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.reads: list[tuple[int, int]] = []

    def read(self, address: int, size: int) -> bytes:
        self.reads.append((address, size))
        return self.memory.read(address, size)


def test_lines_that_look_like_halves_of_addresses(blocked: Process) -> None:
    """GIVEN a code object whose line and the room behind it, which up to 3.10 nobody fills, happen to be an object's
    address THEN the layout is proven all the same, but not if they all are."""
    runtime = find_runtime(blocked)
    recorded = Recorded(blocked.memory)
    prove_now(blocked, runtime.layout, runtime.addresses, recorded)
    # The line is read, and then the word that it is in.
    pairs = zip(recorded.reads, recorded.reads[1:], strict=False)
    lines = {address for (address, size), then in pairs if size == 4 and then == (address, 8)}
    assert len(lines) > 3
    first = min(lines)
    name = read_u64(blocked.memory, first - runtime.layout.code_firstlineno + runtime.layout.code_name)
    words = dict.fromkeys(lines, name)
    prove_now(blocked, runtime.layout, runtime.addresses, Overlay(blocked.memory, {first: name}))
    with pytest.raises(LayoutError, match="half of an address"):
        prove_now(blocked, runtime.layout, runtime.addresses, Overlay(blocked.memory, words))


class Torn:
    """Memory that fails, or gives garbage, in its first reads."""

    def __init__(self, memory: Memory, reads: int) -> None:
        self.memory = memory
        self.reads = reads

    def read(self, address: int, size: int) -> bytes:
        self.reads -= 1
        if self.reads == 4:
            raise MemoryReadError(address, size)
        return bytes(size - 1) + b"\x7f" if self.reads > 0 else self.memory.read(address, size)


def test_torn_reads_are_tried_again(current: tuple[Process, Runtime]) -> None:
    """The first reads fail or give garbage; the layout is right, and the proof must find that out."""
    process, runtime = current
    prove_now(process, runtime.layout, runtime.addresses, Torn(process.memory, 9))


class TornFrames:
    """Memory in which frames are freed as they are read, at first."""

    def __init__(self, memory: Memory, layout: Layout, frames: int) -> None:
        self.memory = memory
        self.layout = layout
        self.frames = frames

    def read(self, address: int, size: int) -> bytes:
        if size == self.layout.frame_size:
            self.frames -= 1
            if self.frames >= 0:
                return bytes(size)
        return self.memory.read(address, size)


def test_torn_frames_are_read_again_at_once(current: tuple[Process, Runtime]) -> None:
    """Each of the four threads is seen without its code 75 times: more often than the whole proof is begun."""
    process, runtime = current
    prove_now(process, runtime.layout, runtime.addresses, TornFrames(process.memory, runtime.layout, 300))


def test_what_has_not_begun_is_not_ready(current: tuple[Process, Runtime]) -> None:
    """No interpreter yet, no thread yet, no frame yet: nothing is wrong, and nothing is proven."""
    process, runtime = current
    layout, memory = runtime.layout, process.memory
    interp = read_u64(memory, runtime.addresses.interpreters_head)
    no_interpreter = {runtime.addresses.interpreters_head: 0}
    no_thread = {interp + layout.interp_threads_head: 0}
    no_frame = {}
    state = read_u64(memory, interp + layout.interp_threads_head)
    while state:
        no_frame[state + layout.thread_frame] = 0
        state = read_u64(memory, state + layout.thread_next)
    for words in no_interpreter, no_thread, no_frame:
        with pytest.raises(NotReadyError):
            prove_now(process, layout, runtime.addresses, Overlay(memory, words))


def test_not_python() -> None:
    with subprocess.Popen(["sleep", "100"]) as sleep:
        with pytest.raises(NotPythonError, match="runs no Python"):
            find_runtime(sleep.pid)
        sleep.kill()


def test_a_starting_python_is_found_in_the_end(interpreter: Interpreter) -> None:
    """From its first instruction on: at first it is no Python, then not ready, and never anything else."""
    process = subprocess.Popen(
        [*interpreter.command, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, env=target_env()
    )
    assert process.stdin
    with process:
        while True:
            try:
                runtime = find_runtime(process.pid)
                break
            except (NotPythonError, NotReadyError):
                assert process.poll() is None
        process.stdin.close()
    assert runtime.version[:3] == interpreter.version


TOOL = """
#include <dlfcn.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) return 1;
    ((void (*)(int))dlsym(library, "Py_InitializeEx"))(0);
    return ((int (*)(const char *))dlsym(library, "PyRun_SimpleString"))(argv[2]);
}
"""
SAY_AND_READ = "import sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.read()"


@pytest.fixture(scope="session")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A C program that embeds the Python in whatever library it is given."""
    folder = tmp_path_factory.mktemp("tool")
    (folder / "tool.c").write_text(TOOL)
    return compile_with_zig(folder / "tool", folder / "tool.c", "-ldl")


def start_embedding(tool: Path, library: Path, prefix: Path) -> subprocess.Popen[bytes]:
    """Start the tool with a library; it reads its stdin when this returns."""
    process = subprocess.Popen(
        [tool, library, SAY_AND_READ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**target_env(), "PYTHONHOME": str(prefix)},
    )
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("deleted", [False, True], ids=["there", "deleted"])
def test_embedded_under_any_name(interpreter: Interpreter, tool: Path, tmp_path: Path, deleted: bool) -> None:
    """Python in a library called engine.bin that a program called tool opens; in the second run the file is deleted
    and another put in its place, as by an upgrade, so that only memory and the kernel's own links tell the truth."""
    prefix = interpreter.executable.parent.parent
    libraries = sorted(prefix.glob("lib/libpython?.*.so.1.0"))
    if interpreter.chroot is not None or not libraries:
        pytest.skip("no shared libpython")
    engine = tmp_path / "engine.bin"
    shutil.copy(libraries[0], engine)
    with start_embedding(tool, engine, prefix) as process:
        if deleted:
            engine.unlink()
            engine.write_bytes(b"\x7fELF, but another file")
        runtime = find_runtime(process.pid)
        assert process.stdin
        process.stdin.close()
    assert runtime.version[:3] == interpreter.version
    assert runtime.module == str(engine)


@pytest.mark.parametrize("sections", [True, False], ids=["sections", "no-sections"])
def test_without_symbols(interpreter: Interpreter, tool: Path, tmp_path: Path, sections: bool) -> None:
    """A binary whose symbols have gone, as of a program that Python was linked into statically, hidden and stripped;
    3.10 on has the section .PyRuntime then. In the second run the section headers have gone as well (sstrip, packers).
    """
    prefix = interpreter.executable.parent.parent
    libraries = sorted(prefix.glob("lib/libpython?.*.so.1.0")) if interpreter.chroot is None else []
    if not libraries and interpreter.executable.parent.name != "bin":
        pytest.skip("runs only where it was built")
    binary = without_names(
        (libraries or [interpreter.executable])[0].read_bytes(),
        b"_PyRuntime",
        b"_PyThreadState_Current",
        b"PyInterpreterState_Head",
    )
    if not sections:
        # e_shoff, e_shnum, e_shstrndx (gABI, ELF header)
        binary = binary[:40] + bytes(8) + binary[48:60] + bytes(4) + binary[64:]
    folder = tmp_path if interpreter.chroot is None else Path(tempfile.mkdtemp(dir=interpreter.chroot / "tmp"))
    hidden = folder / "hidden"
    hidden.write_bytes(binary)
    hidden.chmod(0o755)
    if libraries:
        process = start_embedding(tool, hidden, prefix)
    else:
        root = [] if interpreter.chroot is None else interpreter.command[:2]
        process = subprocess.Popen(
            [*root, interpreter.inside(hidden), "-S", "-c", SAY_AND_READ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**target_env(), "PYTHONHOME": "/usr"},
        )
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
    with process:
        runtime = find_runtime(process.pid)
        assert process.stdin
        process.stdin.close()
    if interpreter.chroot is not None:
        shutil.rmtree(folder)
    assert runtime.version[:3] == interpreter.version
    assert runtime.module == str(hidden)
