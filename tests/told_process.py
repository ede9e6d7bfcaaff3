"""What weft knows of a process, for programs of the tests that walk and unwind it (native/told_process.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from unittest import mock

from zig import compile_with_zig

from weft import _native
from weft.cpython.layout import ABSENT
from weft.cpython.locate import wait_for_runtime
from weft.target import code as target_code
from weft.target.code import CodeBook
from weft.target.process import Process

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent / "native"
INCLUDE = ["-I", NATIVE, "-I", HERE.parent / "bpf", "-I", HERE / "native"]
WALKERS = [
    *(NATIVE / "memory" / name for name in ("late_pages.cpp", "process.cpp", "read_ahead.cpp")),
    *(NATIVE / "python" / name for name in ("code.cpp", "code_identity.cpp", "frames.cpp", "runtime.cpp")),
    *(NATIVE / "sampler" / name for name in ("python_target.cpp", "tracer.cpp")),
    *(NATIVE / "unwind" / name for name in ("cfi.cpp", "code_map.cpp", "code_rule.cpp", "rule.cpp")),
    *(NATIVE / "unwind" / name for name in ("stack_copy.cpp", "table.cpp", "unwinder.cpp")),
    NATIVE / "weave/weave.cpp",
]
# BPF's loads need no alignment, and x86's do not either.
SANITIZE = ["-fsanitize=undefined", "-fno-sanitize=alignment", "-fno-sanitize-recover=undefined"]
WARN = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]


def compile_program(program: Path, sources: Sequence[Path]) -> Path:
    """Compile a C++ program with our walkers, to stop at undefined behaviour.

    All are compiled alike, so that zig compiles the walkers once.
    """
    return compile_with_zig("c++", program, "-std=c++20", "-O1", *SANITIZE, *WARN, *INCLUDE, *sources, *WALKERS)


class _ToldCode:
    """In place of a CodeMap: what is added to it, in the words of told_process.h."""

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
        if table is not None:  # one without rows is one, too
            path = self._folder / f"{table.number}.table"
            path.write_bytes(table.save())
            name = str(path)
        self.lines.append(f"code {begin} {end} {bias} {module} {anonymous:d} {name}")

    def add_eval_loop(self, begin: int, end: int) -> None:
        self.lines.append(f"eval_loop {begin} {end}")

    def add_stack_base(self, begin: int, end: int) -> None:
        self.lines.append(f"stack_base {begin} {end}")


def tell_process(pid: int, folder: Path) -> Path:
    """Write what is known of a process to a file in `folder`, which has its unwind tables too."""
    process = Process(pid)
    runtime = wait_for_runtime(process)
    lines = [f"layout {name} {number}" for name, number in runtime.layout.numbers().items() if number != ABSENT]
    lines += [f"address {name} {number}" for name, number in asdict(runtime.addresses).items()]
    code = _ToldCode(folder)
    with mock.patch.object(target_code._native, "CodeMap", lambda: code):
        book = CodeBook()
        book.map_of(process, within_s=60.0)
        book.close()
    path = folder / "process.txt"
    path.write_text("\n".join([*lines, *code.lines, ""]))
    return path
