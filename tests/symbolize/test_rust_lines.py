"""Functions, lines and inlined functions of Rust whose every call stands on a line that says what it is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from lines import line_of, lines_of, newest
from running import TARGETS, StartTarget

SOURCE = TARGETS / "lines.rs"
WEAVE_V0, WEAVE = (f"<liblines::Loom<{name}> as liblines::Weaves>::weave" for name in ("u16", "T"))
# What the comments call the functions, innermost first: by their names in v0 symbols, and in those before them.
NAMES = {
    "calls": ("liblines::calls", "liblines::calls"),
    "closure": (f"{WEAVE_V0}::{{closure#0}}", f"{WEAVE}::{{{{closure}}}}"),
    "each": (f"liblines::each::<u16, {WEAVE_V0}::{{closure#0}}>", "liblines::each"),
    "weave": (WEAVE_V0, WEAVE),
    "through": ("liblines::shed::through",) * 2,
    "entry": ("entry",) * 2,
}


@pytest.mark.parametrize("options", [[], ["-Csymbol-mangling-version=v0"]])
def test_rust(start_target: StartTarget, options: list[str], tmp_path: Path, lack: Callable[[str], NoReturn]) -> None:
    """GIVEN Rust with a trait, generics, and a closure that is inlined, of either mangling THEN each function is told
    as in the source, with the line of its call."""
    if shutil.which("rustc") is None:
        lack("there is no rustc")
    library = tmp_path / "liblines.so"
    rustc = ["rustc", "--crate-name=liblines", "--crate-type=cdylib", "-Cdebuginfo=2", "-Copt-level=2"]
    subprocess.run([*rustc, *options, SOURCE, "-o", library], check=True, capture_output=True)
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    v0, legacy = (
        [(names[index], SOURCE.name, line_of(function, SOURCE)) for function, names in NAMES.items()]
        for index in range(2)
    )
    expected = v0 if re.search(r" _R\w+8liblines", symbols) else legacy
    assert lines_of(start_target(newest(), "lines.py", library).pid) == expected
