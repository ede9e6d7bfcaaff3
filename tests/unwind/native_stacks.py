"""Native stacks of stopped programs: as gdb sees them, and as we do."""

from __future__ import annotations

import subprocess
from pathlib import Path

from running import Target
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
    book = CodeBook()
    code = book.map_of(Process(pid), within_s=60.0)
    book.close()
    thread = _native.StoppedThread(pid, 5.0)
    try:
        return _native.unwind(_native.ProcessMemory(pid), code, thread.registers)
    finally:
        thread.release()


def wait_until_it_reads(target: Target) -> None:
    """Wait until its first thread blocks in a read of its stdin."""
    wait_until(lambda: Path(f"/proc/{target.pid}/syscall").read_text().startswith("0 0x0 "), "it reads its stdin")
