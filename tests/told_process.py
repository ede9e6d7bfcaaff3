"""What weft knows of a process, for programs of the tests that walk and unwind it (native/told_process.h)."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from weft import _native
from weft.cpython.layout import ABSENT
from weft.cpython.locate import wait_for_runtime
from weft.target import code as target_code
from weft.target.code import CodeBook
from weft.target.process import Process


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
    lines += [f"address {name} {number}" for name, number in runtime.addresses._asdict().items()]
    code = _ToldCode(folder)
    with mock.patch.object(target_code._native, "CodeMap", lambda: code):
        book = CodeBook()
        book.map_of(process, within_s=60.0)
        book.close()
    path = folder / "process.txt"
    path.write_text("\n".join([*lines, *code.lines, ""]))
    return path
