"""Native code without unwind information: what its frame pointers tell, and what is not told without them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import ziglang
from interpreters import Interpreter
from running import TARGETS, StartTarget
from weft_command import run_weft

FUNCTIONS = ["outlined", "jumped_to", "entry"]  # of lines.c, innermost first: those that have frames
NO_TABLES = ["-g0", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"]


def dumped(interpreter: Interpreter, start_target: StartTarget, folder: Path, *options: str) -> list[dict[str, Any]]:
    """The frames of a program that blocks in a Python function which such a library has called."""
    library = (interpreter.chroot / "tmp" if interpreter.chroot else folder) / f"liblines-{folder.name}.so"
    zig = Path(ziglang.__file__).with_name("zig")
    flags = ["-target", "x86_64-linux-gnu.2.17", "-O2", "-shared", "-fPIC", *NO_TABLES, *options]
    subprocess.run([zig, "cc", *flags, TARGETS / "lines.c", "-o", library], check=True)
    try:
        target = start_target(interpreter, "lines.py", interpreter.inside(library))
        (thread,) = json.loads(run_weft("dump", "--json", target.pid).stdout)["threads"]
    finally:
        library.unlink()
    frames: list[dict[str, Any]] = thread["frames"]
    assert [frame["function"] for frame in frames if frame["kind"] == "python"] == ["stop", "<module>"]
    return frames


def test_frame_pointers(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN functions that keep a frame pointer and nothing else THEN each is told, and how it was found; what called
    them is proven as ever."""
    frames = dumped(interpreter, start_target, tmp_path, "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")
    guessed = [frame["function"] for frame in frames if frame.get("by_frame_pointer")]
    assert guessed == FUNCTIONS
    assert [frame["seam"] for frame in frames if frame.get("seam")] == ["proven", "proven"]
    assert not [frame for frame in frames if frame["kind"] == "marker"]


def test_no_frame_pointers(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN functions that keep none THEN what is told of them is true, and a gap is said to be one."""
    frames = dumped(interpreter, start_target, tmp_path, "-fomit-frame-pointer")
    told = [frame["function"] for frame in frames if "liblines" in frame.get("module", "")]
    assert told in (FUNCTIONS[:1], FUNCTIONS)  # a compiler's short functions are straight to their return
    gaps = [frame["function"] for frame in frames if frame["kind"] == "marker"]
    assert bool(gaps) == (told != FUNCTIONS)
