"""Native stacks of stopped programs, frame by frame as gdb sees them."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from interpreters import Interpreter
from running import StartTarget
from weft_command import wait_until

from weft import _native
from weft.target.code import CodeBook
from weft.target.process import Process

GDB = """
frame = gdb.newest_frame()
while frame is not None:
    if frame.type() in (gdb.NORMAL_FRAME, gdb.SIGTRAMP_FRAME):
        print("pc %d" % frame.pc())
    frame = frame.older()
"""


def gdb_stack(pid: int, folder: Path, root: Path | None) -> list[int]:
    """The pcs of the first thread's frames, innermost first, without those that have none: inlined and tail-called."""
    script = folder / "stack.py"
    script.write_text(GDB)
    settings = ["set backtrace past-main on", "set backtrace limit unlimited", f"set sysroot {root or ''}"]
    words = [word for setting in settings for word in ("-ex", setting)]
    command = ["gdb", "-batch", "-nx", *words, "-p", str(pid), "-x", script]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(line[3:]) for line in text.splitlines() if line.startswith("pc ")]


def own_stack(pid: int) -> tuple[list[tuple[int, int, int, bool]], str | None]:
    """What the unwinder sees of the first thread."""
    code = CodeBook().map_of(Process(pid), within_s=60.0)
    thread = _native.StoppedThread(pid, 5.0)
    try:
        return _native.unwind(_native.ProcessMemory(pid), code, thread.registers)
    finally:
        thread.release()


@pytest.mark.parametrize("depth", [0, 50])
def test_nested(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, depth: int) -> None:
    """GIVEN C that calls Python that calls C, through sort, re, libffi, qsort and slots THEN each frame is gdb's."""
    target = start_target(interpreter, "nested.py", depth)
    wait_until(lambda: Path(f"/proc/{target.pid}/syscall").read_text().startswith("0 0x0 "), "it reads its stdin")
    frames, loss = own_stack(target.pid)
    assert loss is None
    assert [frame[0] for frame in frames] == gdb_stack(target.pid, tmp_path, interpreter.chroot)
    assert len(frames) > (300 if depth else 10)
    places = [(stack_pointer, cfa) for _, stack_pointer, cfa, _ in frames]
    assert all(low < high for low, high in places[:-1]), "frames lie above each other"
    assert all(before[1] == after[0] for before, after in pairwise(places))
