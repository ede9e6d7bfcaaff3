"""Runs test_units.cpp: the parts of native/ that no binding shows."""

from __future__ import annotations

import subprocess

from programs import build


def test_units() -> None:
    """GIVEN reading ahead, interning, the timeline, holds and limits, compiled to stop at undefined behaviour."""
    run = subprocess.run([build("units")], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "all hold\n", "")
