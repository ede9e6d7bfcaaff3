"""weft dump of core files: as true as of the live process that they were; damaged ones are told apart."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dumps import dump, expected, newest, settle, shown, weft
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreters import Interpreter
from running import StartTarget, Target

from weft.errors import WeftError
from weft.target.core import Core

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


@pytest.fixture
def folder(interpreter: Interpreter) -> Iterator[Path]:
    """A folder for a core, where the interpreter can write it."""
    with tempfile.TemporaryDirectory(dir=interpreter.chroot / "tmp" if interpreter.chroot else None) as path:
        yield Path(path)


def crash(target: Target, folder: Path) -> Path:
    """Let a target dump core, and return where it lies."""
    pattern = CORE_PATTERN.read_text()
    if pattern.startswith(("|", "/")):
        pytest.skip(f"cores go elsewhere on this machine: {pattern.strip()}")
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    try:
        resource.prlimit(target.pid, resource.RLIMIT_CORE, unlimited)
    except PermissionError:
        pytest.skip("core files are forbidden by the hard limit")
    os.kill(target.pid, signal.SIGABRT)
    target.process.wait()
    return next(folder.glob("core*"))


def gcore(program: str, target: Target, folder: Path) -> Path:
    run = subprocess.run([program, "-o", folder / "core", str(target.pid)], check=True, capture_output=True, text=True)
    if re.search(r"Memory read failed for corefile section, \d+ bytes at 0x[0-9a-f]{,12}\.", run.stdout + run.stderr):
        # It gives up a whole mapping for one unreadable page: the guard of a stack, as glibc 2.42 makes it.
        pytest.skip("this gdb leaves out the stacks of this libc")
    return next(folder.glob("core*"))


def test_crash(interpreter: Interpreter, folder: Path, start_target: StartTarget) -> None:
    """GIVEN a core that the kernel wrote, of a thread for each kind of frame; in a chroot it tells paths from there."""
    target = start_target(interpreter, "crash.py", interpreter.inside(folder))
    settle(target)
    stacks = expected(target)
    core = crash(target, folder)
    told = dump(core, *(["--root", interpreter.chroot] if interpreter.chroot else []))
    assert shown(told, stacks) == stacks
    assert told["pid"] == target.pid
    # The kernel keeps the command's first 79 bytes (ELF_PRARGSZ). In a chroot it begins behind chroot(1).
    command = target.command[target.command.index(interpreter.command[-1]) :]
    assert told["command"] == " ".join(command)[:79].rstrip()
    assert told["warnings"] == []
    assert {(thread["state"], thread["syscall"], thread["proven"]) for thread in told["threads"]} == {
        ("blocked", "read", True)
    }
    names = {thread["name"] for thread in told["threads"]}
    assert {"MainThread", "recursion", "generator"} <= names


def test_gcore(
    interpreter: Interpreter, folder: Path, start_target: StartTarget, program: Callable[[str], str]
) -> None:
    """GIVEN a core that gdb wrote of a running process; gdb leaves out what it can read from files."""
    target = start_target(interpreter, "stops.py", "--only", "recursion")
    settle(target)
    stacks = expected(target)
    told = dump("--locals", gcore(program("gcore"), target, folder))
    assert shown(told, stacks) == stacks
    thread = next(thread for thread in told["threads"] if thread["name"] == "recursion")
    counts = [frame["locals"]["n"] for frame in thread["frames"] if frame["function"] == "recursion"]
    assert counts == [str(n) for n in range(21)]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str]) -> Path:
    """A core of the newest interpreter outside of a chroot."""
    path = tmp_path_factory.mktemp("core")
    command = [*newest().command, "-c", "import time; print(1, flush=True); time.sleep(60)"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        subprocess.run([program("gcore"), "-o", path / "core", str(process.pid)], check=True, capture_output=True)
    finally:
        process.kill()
        process.communicate()
    return next(path.glob("core*"))


def refusal(*arguments: object) -> str:
    """What weft says on stderr, one line; nothing else must come."""
    run = weft("dump", *arguments)
    assert (run.returncode, run.stdout) == (1, ""), run.stdout
    assert re.fullmatch(r"weft: [^\n]+\n", run.stderr), run.stderr
    return run.stderr


def changed(core: Path, to: Path, *changes: tuple[int, bytes]) -> Path:
    """A copy of a core in which bytes were replaced."""
    shutil.copy(core, to)
    with to.open("r+b") as file:
        for offset, data in changes:
            file.seek(offset)
            file.write(data)
    return to


def test_not_a_core(tmp_path: Path, core: Path) -> None:
    """GIVEN files that are no core, or one of another machine."""
    assert "is no core file" in refusal(newest().executable)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert "is no core file" in refusal(empty)
    packed = tmp_path / "packed"
    packed.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    assert "is packed; unpack it first (unzstd)" in refusal(packed)
    assert "another architecture" in refusal(changed(core, tmp_path / "arm", (18, b"\xb7\x00")))
    assert "another architecture" in refusal(changed(core, tmp_path / "32", (4, b"\x01")))


@pytest.mark.parametrize("part", [0.0002, 0.3, 0.6, 0.9, 0.999])
def test_truncated(tmp_path: Path, core: Path, part: float) -> None:
    """GIVEN a core that was cut off: said with the number of bytes; what can be read is shown."""
    whole = core.stat().st_size
    size = int(whole * part)
    cut = tmp_path / "cut"
    shutil.copy(core, cut)
    os.truncate(cut, size)
    run = weft("dump", cut)
    assert "truncated" in run.stdout + run.stderr
    if part > 0.01:
        assert f"{whole - size:,} of {whole:,} bytes are missing" in run.stdout + run.stderr
    assert run.returncode == (0 if run.stdout else 1)
    assert "Traceback" not in run.stderr


def test_cut_off_by_a_limit(tmp_path: Path, start_target: StartTarget) -> None:
    """GIVEN a core of the kernel's, which has its threads first, without its end: stacks are there, and a warning."""
    target = start_target(newest(), "crash.py", tmp_path, "--only", "recursion")
    settle(target)
    stacks = expected(target)
    core = crash(target, tmp_path)
    size = core.stat().st_size
    os.truncate(core, size - 4096)
    told = dump(core)
    assert shown(told, stacks) == stacks
    assert told["warnings"] == [f"the core file is truncated: 4,096 of {size:,} bytes are missing"]
    os.truncate(core, size // 2)
    assert f"the core file is truncated: {size - size // 2:,} of {size:,} bytes are missing" in refusal(core)


def moved(core: Path, to: Path) -> tuple[Path, str, str]:
    """A core whose process had its interpreter's library under a path that is not there; the path, and where it is."""
    module = dump(core)["runtime"]["module"]
    gone = module[:-1] + ("X" if module[-1] != "X" else "Y")
    data = core.read_bytes()
    assert module.encode() + b"\0" in data
    to.write_bytes(data.replace(module.encode() + b"\0", gone.encode() + b"\0"))
    return to, gone, module


def test_without_its_binary(tmp_path: Path, core: Path) -> None:
    """GIVEN a core of another machine, whose libpython is not here; then a --root with another build; then the one."""
    copy, gone, module = moved(core, tmp_path / "moved")
    said = refusal(copy)
    assert f"needs {gone}: not found" in said
    assert "--root DIR" in said
    root = tmp_path / "root"
    there = Path(f"{root}{gone}")
    there.parent.mkdir(parents=True)
    library = bytearray(Path(module).read_bytes())
    library[100] ^= 1  # in the program headers
    there.write_bytes(library)
    assert f"{there} is another build" in refusal("--root", root, copy)
    shutil.copy(module, there)
    told = dump("--root", root, copy)
    assert told["runtime"]["module"] == gone
    assert [frame["function"] for frame in told["threads"][0]["frames"]] == ["<module>"]
    assert told["warnings"] == []


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=8)), max_size=8),
    size=st.integers(0, 1 << 17),
)
def test_damaged_headers(core: Path, tmp_path: Path, changes: list[tuple[int, bytes]], size: int) -> None:
    """GIVEN headers and notes with any bytes changed: a core that can be looked at, or an error of ours."""
    damaged = tmp_path / "damaged"
    with core.open("rb") as file:
        data = bytearray(file.read(size))
    for offset, new in changes:
        data[offset : offset + len(new)] = new
    damaged.write_bytes(data)
    try:
        found = Core(damaged)
    except WeftError:
        return
    assert found.threads
    assert all(mapping.start < mapping.end for mapping in found.maps())
    assert found.missing_bytes >= 0
