"""Native stacks of stopped programs: as gdb sees them, and as we do."""

from __future__ import annotations

import subprocess
from pathlib import Path

from running import Target
from weft_command import wait_until

from weft import _native
from weft.target.code import CodeBook
from weft.target.process import Process

WALK = """
def walk():
    frame = gdb.newest_frame()
    while frame is not None:
        if frame.type() in (gdb.NORMAL_FRAME, gdb.SIGTRAMP_FRAME):
            yield frame.pc()
        frame = frame.older()
"""
PRINT = "print('stack', *walk())"
# At a function's first instruction its caller is known by the return address alone.
PRINT_CALLERS = """
gdb.execute("break *&'%s'")
for _ in range(%d):
    gdb.execute("continue")
    pc, sp = (int(gdb.parse_and_eval(name)) for name in ("(long)$pc", "(long)$sp"))
    gdb.execute("set $pc = *(long*)$sp")
    gdb.execute("set $sp = %%d" %% (sp + 8))
    print("stack", *walk())
    gdb.execute("set $sp = %%d" %% sp)
    gdb.execute("set $pc = %%d" %% pc)
gdb.execute("delete")
"""


def gdb_stack(pid: int, folder: Path, root: Path | None) -> list[int]:
    """The pcs of the first thread's frames, innermost first, without those that have none: inlined and tail-called."""
    (stack,) = gdb_stacks(pid, folder, root, PRINT)
    return stack


def gdb_callers(pid: int, folder: Path, root: Path | None, function: str, calls: int) -> list[list[int]]:
    """The same of those that call a function, for so many calls."""
    return gdb_stacks(pid, folder, root, PRINT_CALLERS % (function, calls))


def gdb_stacks(pid: int, folder: Path, root: Path | None, code: str) -> list[list[int]]:
    script = folder / "stack.py"
    script.write_text(WALK + code)
    settings = ["set backtrace past-main on", "set backtrace limit unlimited", f"set sysroot {root or ''}"]
    words = [word for setting in settings for word in ("-ex", setting)]
    command = ["gdb", "-batch", "-nx", *words, "-p", str(pid), "-x", script]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [[int(pc) for pc in line.split()[1:]] for line in text.splitlines() if line.startswith("stack ")]


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

    def reads() -> bool:
        assert target.process.poll() is None, f"it has ended with {target.process.returncode}"
        return Path(f"/proc/{target.pid}/syscall").read_text().startswith("0 0x0 ")

    wait_until(reads, "it reads its stdin")
