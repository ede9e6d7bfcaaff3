"""`weft view` in a process of its own."""

from __future__ import annotations

import subprocess


def address(weft: subprocess.Popen[bytes]) -> str:
    """What weft view says when it serves: where the page is."""
    assert weft.stderr
    line = weft.stderr.readline().decode()
    assert line.startswith("weft: http://127.0.0.1:"), line
    return line.removeprefix("weft: ").strip()
