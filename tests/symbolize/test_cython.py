"""Cython functions of every kind, built by both lines of Cython, with and without what tells their lines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from interpreters import Interpreter, all_interpreters
from running import StartTarget
from weft_command import run_weft
from zig import compile_with_zig

from weft.sample import Frame, FrameKind
from weft.symbolize.cython import CythonFile, CythonModule, decode

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = Path(os.environ.get("WEFT_CACHE") or ROOT / ".cache")
SOURCE = ROOT / "tests" / "targets" / "fixture.pyx"
# Innermost first. A wrapper and its body are one frame.
FUNCTIONS = ["fused", "gen", "outer.inner", "low", "plain", "Shape.area", "Shape.method"]


def line_of(function: str) -> int:
    """The line that says that it is the call in this function."""
    lines = SOURCE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# at fixture.{function}"))


def interpreter_with_headers() -> tuple[Interpreter, str]:
    """A Python that extensions can be compiled for, and the folder of its headers."""
    ask = "import sysconfig; print(sysconfig.get_paths()['include'])"
    for interpreter in reversed(all_interpreters()):
        if interpreter.chroot is None and (3, 6) <= interpreter.version < (3, 13):  # that Cython 0.29 knows
            folder = subprocess.run([*interpreter.command, "-c", ask], capture_output=True, text=True, check=True)
            if (Path(folder.stdout.strip()) / "Python.h").exists():
                return interpreter, folder.stdout.strip()
    pytest.fail("no Python here has its headers")


def build(folder: Path, cython: str, include: str, *options: str) -> None:
    """Make fixture.so from fixture.pyx."""
    shutil.copy(SOURCE, folder)
    env = os.environ | {"PYTHONPATH": str(CACHE / cython)}
    subprocess.run([sys.executable, "-m", "cython", *options[1:], "fixture.pyx"], cwd=folder, env=env, check=True)
    flags = ["-O2", "-shared", "-fPIC", options[0], "-I", include]
    compile_with_zig(folder / "fixture.so", *flags, "fixture.c")


def shown(pid: int) -> list[dict[str, Any]]:
    """The frames of the fixture that are shown, innermost first."""
    (thread,) = json.loads(run_weft("dump", "--json", pid).stdout)["threads"]
    own = [frame for frame in thread["frames"] if frame.get("module", "").endswith("/fixture.so")]
    return [frame for frame in own if not frame["machinery"]]


@pytest.mark.parametrize("cython", ["cython-0.29", "cython-3"])
@pytest.mark.parametrize(
    ("options", "keep_c"),
    [(["-g"], True), (["-g"], False), (["-g", "--line-directives"], False), (["-g0"], False)],
    ids=["c-file", "no-c-file", "line-directives", "no-debug-information"],
)
def test_functions(
    start_target: StartTarget,
    lack: Callable[[str], NoReturn],
    tmp_path: Path,
    cython: str,
    options: list[str],
    keep_c: bool,
) -> None:
    """GIVEN Python and each kind of Cython function in turns THEN each is one frame, by its name in the source; with
    the line of its call, if the C file is at hand or the debug information has it."""
    if not (CACHE / cython).exists():
        lack(f"no {cython} on this machine")
    interpreter, include = interpreter_with_headers()
    build(tmp_path, cython, include, *options)
    if not keep_c:
        (tmp_path / "fixture.c").unlink()
    frames = shown(start_target(interpreter, "cythons.py", tmp_path).pid)
    assert {frame["kind"] for frame in frames} == {"cython"}
    names = [frame["function"].removeprefix("fixture.") for frame in frames]
    lines = [frame["line"] for frame in frames]
    if "-g0" in options:
        # A cdef function with one caller is inlined, and nothing tells.
        assert [name if name != "generator" else "gen" for name in names] == [f for f in FUNCTIONS if f != "low"]
        assert not any(lines)
        return
    if keep_c:
        assert names == FUNCTIONS
        assert {Path(frame["file"]).name for frame in frames} == {"fixture.pyx"}
    else:
        # Only the C file's comments tell the name of a generator.
        assert [name if not name.startswith("generator") else "gen" for name in names] == FUNCTIONS
    if keep_c or "--line-directives" in options:
        assert lines == [line_of(function) for function in FUNCTIONS]
    else:
        assert not any(lines)


def test_names() -> None:
    """Symbols as Cython makes them, and such that only look alike."""
    assert decode("__pyx_pw_3pkg_3mod_5Shape_7area_of") == ("pw", "pkg.mod.Shape.area_of")
    assert decode("__pyx_pf_3pkg_3mod_2__add__.constprop.0") == ("pf", "pkg.mod.__add__")
    assert decode("__pyx_fuse_1__pyx_pw_3mod_12fused") == ("pw", "mod.fused")
    assert decode("__pyx_f_3mod_low") == ("f", "mod.low")
    assert decode("__pyx_pw_3mod_1a_b") == ("pw", "mod.a_b")
    assert decode("__pyx_f_99mod_low") == ("f", "mod_low")
    for name in ("__pyx_pw_", "__Pyx_PyObject_Call", "__pyx_f_low", "pw_3mod_1f", "__pyx_pw_\n3mod_1f"):
        assert decode(name) is None


def test_lines_of_cythons_own_code() -> None:
    """GIVEN C that no line of a .pyx file stands for THEN it has no line: not that of what comes before it."""
    text = '/* Generated by Cython 3 */\nint a;\n/* "x.pyx":7\n */\nf();\n/* --- Runtime support code --- */\ng();\n'
    file = CythonFile(text)
    assert file.place(2) is None
    assert file.place(5) == ("x.pyx", 7)
    assert file.place(7) is None


def test_a_source_that_is_a_pipe(tmp_path: Path) -> None:
    """GIVEN debug information that names a pipe as the C file THEN nothing is waited for, and there is no line."""
    pipe = tmp_path / "mod.c"
    os.mkfifo(pipe)
    frame = Frame(FrameKind.NATIVE, "__pyx_pf_3mod_f", str(pipe), 7, module="/mod.so")
    (told,) = CythonModule("/mod.so")([frame])
    assert (told.function, told.line) == ("mod.f", 0)
