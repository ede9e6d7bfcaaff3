"""Native code without unwind information: what its frame pointers tell, and what is not told without them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from interpreters import Interpreter
from running import TARGETS, StartTarget
from weft_command import run_weft, wait_until
from zig import compile_with_zig

NO_TABLES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"]


@contextmanager
def library(interpreter: Interpreter, folder: Path, source: str, *options: str) -> Iterator[str]:
    """A shared library, as the interpreter sees it."""
    path = (interpreter.chroot / "tmp" if interpreter.chroot else folder) / f"lib-{folder.name}-{interpreter.name}.so"
    compile_with_zig(path, "-O2", "-g0", "-shared", "-fPIC", *options, TARGETS / source)
    yield interpreter.inside(path)
    path.unlink()


def frames_of(pid: int) -> list[dict[str, Any]]:
    """The frames of a program of one thread."""
    dump = run_weft("dump", "--json", pid)
    assert dump.returncode == 0, dump.stderr
    (thread,) = json.loads(dump.stdout)["threads"]
    frames: list[dict[str, Any]] = [frame for frame in thread["frames"] if frame["kind"] != "kernel"]
    return frames


def called(interpreter: Interpreter, start_target: StartTarget, folder: Path, *options: str) -> list[dict[str, Any]]:
    """The frames of a program that blocks in a Python function which a stripped library without tables has called."""
    with library(interpreter, folder, "lines.c", "-s", *NO_TABLES, *options) as path:
        frames = frames_of(start_target(interpreter, "lines.py", path).pid)
    assert [frame["function"] for frame in frames if frame["kind"] == "python"] == ["stop", "<module>"]
    return frames


def told_by(frames: list[dict[str, Any]]) -> list[tuple[bool, bool]]:
    """Of each of the library's frames, whether it has a name, and whether its frame pointer told its caller."""
    own = [frame for frame in frames if "/lib-test_" in frame.get("module", "")]
    return [(frame["function"] == "entry", frame["by_frame_pointer"]) for frame in own]


def test_frame_pointers(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN functions that keep a frame pointer, and no symbols but the exported one's THEN each is told, and how it
    was found; what called them is proven as ever."""
    frames = called(interpreter, start_target, tmp_path, "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")
    assert told_by(frames) == [(False, True), (False, True), (True, False)]  # outlined, jumped_to, entry
    assert [frame["seam"] for frame in frames if frame.get("seam")] == ["proven", "proven"]
    assert not [frame for frame in frames if frame["kind"] == "marker"]


def test_no_frame_pointers(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN functions that keep none THEN what is told of them is true, and a gap is said to be one."""
    frames = called(interpreter, start_target, tmp_path, "-fomit-frame-pointer")
    told = told_by(frames)
    assert told in ([(False, False)], [(False, False), (False, False), (True, False)])
    assert len([frame for frame in frames if frame["kind"] == "marker"]) == (1 if len(told) == 1 else 0)


@pytest.mark.parametrize("kernel", ["aligned", "saved", "pushed", "plain"])
def test_kernels(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, kernel: str) -> None:
    """GIVEN assembly that saves registers, uses them for something else, and aligns the stack, without a word of it
    THEN its caller is known, and what the registers held there: the anchors of Python up to 3.10."""
    with library(interpreter, tmp_path, "kernels.c") as path:
        target = start_target(interpreter, "kernels.py", path, kernel)
        wait_until(lambda: Path(f"/proc/{target.pid}/syscall").read_text().startswith("0 0x0 "), "it reads its stdin")
        frames = frames_of(target.pid)
    assert [frame["function"] for frame in frames[:2]] == [kernel, f"call_{kernel}"]
    assert [frame["function"] for frame in frames if frame["kind"] == "python"] == ["run", "<module>"]
    assert {frame["seam"] for frame in frames if frame.get("seam")} == {"proven"}
    assert not [frame for frame in frames if frame["kind"] == "marker" or frame.get("by_frame_pointer")]
