"""weft is built by whatever Python `make` finds; from 3.12 on for the stable ABI, whose Python.h includes less."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from interpreters import REPOSITORY, Interpreter, all_interpreters

STABLE_ABI = "-DPy_LIMITED_API=0x030C0000"


def headers_of(interpreter: Interpreter) -> Path:
    """Where its Python.h is, if it has one."""
    return interpreter.executable.parents[1] / "include" / "python{}.{}".format(*interpreter.minor)


BUILDERS = [each for each in all_interpreters() if each.minor >= (3, 12) and (headers_of(each) / "Python.h").exists()]


@pytest.mark.skipif(not BUILDERS, reason="no Python 3.12 or newer with its headers")
@pytest.mark.parametrize("name", ["nb_type.cpp", "module.cpp"])
@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: builder.name)
def test_bindings_compile(builder: Interpreter, name: str, tmp_path: Path) -> None:
    """GIVEN the headers of a Python WHEN nanobind and weft's module are compiled as by the build THEN that succeeds."""
    databases = sorted(REPOSITORY.glob("build/cp*/compile_commands.json"), key=lambda path: path.stat().st_mtime)
    (entry,) = (each for each in json.loads(databases[-1].read_text()) if Path(each["file"]).name == name)
    compiler, *words = shlex.split(entry["command"])
    words[words.index("-o") + 1] = str(tmp_path / "compiled.o")
    command = [compiler, f"-I{headers_of(builder)}", STABLE_ABI, *words, "-O0"]
    run = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
