"""The kernel's walk, compiled for the host, beside our own walkers: the same stacks, of the same memory."""

from __future__ import annotations

import platform
import random
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

import pytest
import ziglang
from interpreters import Interpreter
from running import StartTarget

from weft import _native
from weft.cpython.layout import ABSENT
from weft.cpython.locate import find_runtime
from weft.target import code as target_code
from weft.target.code import CodeBook
from weft.target.process import Process

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NATIVE = ROOT / "native"
SOURCES = [
    *(NATIVE / "memory" / name for name in ("late_pages.cpp", "process.cpp", "read_ahead.cpp")),
    *(NATIVE / "python" / name for name in ("code.cpp", "code_identity.cpp", "frames.cpp", "runtime.cpp")),
    *(NATIVE / "sampler" / name for name in ("kernel_process.cpp", "kernel_sample.cpp", "python_target.cpp")),
    *(
        NATIVE / "unwind" / name
        for name in ("cfi.cpp", "code_map.cpp", "code_rule.cpp", "kernel_table.cpp", "rule.cpp")
    ),
    *(NATIVE / "unwind" / name for name in ("stack_copy.cpp", "table.cpp", "unwinder.cpp")),
    NATIVE / "weave/weave.cpp",
]
STOPS = 150


@pytest.fixture(scope="module")
def compare_walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled to stop at undefined behaviour."""
    zig = Path(ziglang.__file__).with_name("zig")
    folder = tmp_path_factory.mktemp("walks")
    target = ["-target", f"{platform.machine()}-linux-gnu.2.17", "-O1"]
    # BPF's loads need no alignment, and x86's do not either.
    sanitize = ["-fsanitize=undefined", "-fno-sanitize=alignment", "-fno-sanitize-recover=undefined"]
    include = ["-I", NATIVE, "-I", ROOT / "bpf"]
    host = folder / "host.o"
    subprocess.run([zig, "cc", *target, *sanitize, *include, "-c", HERE / "host.c", "-o", host], check=True)
    program = folder / "compare_walks"
    sources = [HERE / "compare_walks.cpp", *SOURCES, host]
    subprocess.run([zig, "c++", *target, "-std=c++20", *sanitize, *include, *sources, "-o", program], check=True)
    return program


class _ToldCode:
    """In place of a CodeMap: what is added to it, in the words of compare_walks.cpp."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.lines: list[str] = []

    def add(
        self,
        begin: int,
        end: int,
        bias: int,
        module: int,
        table: _native.UnwindTable | None = None,
        *,
        anonymous: bool = False,
    ) -> None:
        name = "-"
        if table:
            path = self._folder / f"{table.number}.table"
            path.write_bytes(table.save())
            name = str(path)
        self.lines.append(f"code {begin} {end} {bias} {module} {anonymous:d} {name}")

    def add_eval_loop(self, begin: int, end: int) -> None:
        self.lines.append(f"eval_loop {begin} {end}")

    def add_stack_base(self, begin: int, end: int) -> None:
        self.lines.append(f"stack_base {begin} {end}")


def describe(pid: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What compare_walks has to know of a process, as a file."""
    runtime = find_runtime(pid)
    lines = [f"layout {name} {number}" for name, number in runtime.layout.numbers().items() if number != ABSENT]
    lines += [f"address {name} {number}" for name, number in asdict(runtime.addresses).items()]
    code = _ToldCode(folder)
    with monkeypatch.context() as patch:
        patch.setattr(target_code._native, "CodeMap", lambda: code)
        book = CodeBook()
        book.map_of(Process(pid), within_s=60.0)
        book.close()
    path = folder / "process.txt"
    path.write_text("\n".join([*lines, *code.lines, ""]))
    return path


def test_same_stacks(
    interpreter: Interpreter,
    start_target: StartTarget,
    compare_walks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GIVEN a program that is stopped at any instruction, deep in Python that calls C that calls Python THEN the
    kernel's walk over its memory tells the native frames, the Python frames and the seams that our own walkers find."""
    target = start_target(interpreter, "woven.py", 100)
    described = describe(target.pid, tmp_path, monkeypatch)
    pauses = random.Random(1)
    followed = native = python = 0
    with subprocess.Popen(
        [compare_walks, str(target.pid), described], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as comparison:
        assert comparison.stdin
        assert comparison.stdout
        for number in range(STOPS):
            time.sleep(pauses.uniform(0, 0.003))
            thread = _native.StoppedThread(target.pid, 5.0)
            try:
                registers = [thread.registers[i] for i in range(_native.PC + 1)]
                print(thread.thread_pointer, *registers, number % 2, file=comparison.stdin, flush=True)
                verdict, *told = comparison.stdout.readline().rsplit(maxsplit=3)
            finally:
                thread.release()
            assert verdict == "same", (number, verdict, told)
            done, native_frames, python_frames = map(int, told)
            followed += done
            native += native_frames
            python += python_frames
    # The program was deep in both, and the kernel needed us for few of its stacks.
    print(f"{interpreter.name}: {followed} of {STOPS} followed, {native} native and {python} Python frames")
    assert followed > 0.9 * STOPS
    assert native > 30 * STOPS
    assert python > 15 * STOPS
