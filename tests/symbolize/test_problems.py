"""What cannot be read of a module is told, whatever the module is called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from lines import PLACES, compile_library, frames_of, lines_of, newest
from running import StartTarget
from weft_command import LIMIT_S, run_weft, running_weft, wait_until

from weft.symbolize.problems import warnings_of
from weft.target.code import CodeModule

HOSTILE = "\x1b[31m\nliblines.so"
SHOWN = "\\x1b[31m\\x0aliblines.so: the debug information in"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A library whose debug information is none, under a name that steers terminals and breaks lines."""
    library = compile_library(tmp_path, "-g")
    junk = tmp_path / "junk"
    junk.write_bytes(b"\xff" * 400)
    subprocess.run(["objcopy", "--update-section", f".debug_info={junk}", library], check=True)
    return library.rename(tmp_path / HOSTILE)


def test_dump(start_target: StartTarget, damaged: Path) -> None:
    """GIVEN damaged debug information THEN a dump warns of it in one line, and functions have their symbols' names."""
    target = start_target(newest(), "lines.py", damaged)
    run = run_weft("dump", target.pid)
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("warning: ")]
    assert SHOWN in line
    assert "\x1b" not in run.stdout
    assert all(f"{function} (" in run.stdout for function in PLACES[2:])


def test_record(start_target: StartTarget, damaged: Path, tmp_path: Path) -> None:
    """GIVEN that THEN a recording warns of it in one line on stderr."""
    target = start_target(newest(), "lines.py", damaged)
    capture = tmp_path / "run.weft"
    with running_weft("record", "-p", target.pid, "-o", capture) as weft:
        wait_until(lambda: frames_of(capture, damaged) != [] or weft.poll() is not None, "weft has sampled it")
        target.finish()
        told = weft.communicate(timeout=LIMIT_S)[1].decode()
    assert weft.returncode == 0
    lines = [line for line in told.splitlines() if "liblines.so" in line]
    assert len(lines) == 1
    assert lines[0].startswith("weft: ")
    assert SHOWN in lines[0]
    assert "\x1b" not in told


def test_sound(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a library that is only stripped THEN there is nothing to warn of: that is no fault."""
    target = start_target(newest(), "lines.py", compile_library(tmp_path, "-g0", "-s"))
    assert lines_of(target.pid)
    assert "warning:" not in run_weft("dump", target.pid).stdout


def test_bounds() -> None:
    """GIVEN many modules with endless names and problems THEN there are few lines, none of them long, and the last
    tells of the others."""
    modules = [CodeModule(number, "/" + "x" * 9_000, None, problems=["y" * 9_000]) for number in range(1_000)]
    *lines, last = warnings_of(modules)
    assert len(lines) < 20
    assert max(map(len, lines)) < 400
    assert f" {1_000 - len(lines)} " in last
