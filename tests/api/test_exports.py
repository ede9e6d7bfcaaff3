"""What weft promises to programs: a name that comes or goes is seen here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import weft

PUBLIC = {
    "Account",
    "Capture",
    "Collector",
    "FunctionRow",
    "LineRow",
    "Mode",
    "Options",
    "Profile",
    "Progress",
    "Recording",
    "Result",
    "Results",
    "StackRow",
    "Table",
    "ThreadRow",
    "WeftError",
    "__version__",
    "open",
    "record",
    "record_command",
    "record_process",
}


def test_exports() -> None:
    assert set(weft.__all__) == PUBLIC
    assert len(weft.__all__) == len(PUBLIC)
    for name in PUBLIC:
        assert getattr(weft, name) is not None
    assert weft.record is weft.Recording
    assert isinstance(weft.open, type(test_exports))


def test_nothing_is_loaded_before_it_is_used() -> None:
    """`import weft` costs nothing, and nothing that only some of its parts need is loaded."""
    code = "import sys, weft; print(sorted(name for name in sys.modules if name.startswith('weft.')))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "[]"


def test_types_are_told() -> None:
    assert (Path(weft.__file__).parent / "py.typed").exists()
