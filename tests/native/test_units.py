"""Runs test_units.cpp: the parts of native/ that no binding shows."""

from __future__ import annotations

import subprocess
from pathlib import Path

from told_process import NATIVE, compile_program

TESTED = [
    NATIVE / "memory/image.cpp",
    *(NATIVE / "sampler" / name for name in ("stacks.cpp", "timeline.cpp", "runs.cpp", "cpu_clock.cpp")),
    *(NATIVE / "sampler" / name for name in ("kernel_clocks.cpp", "kernel_ring.cpp", "perf_event.cpp", "proc.cpp")),
]


def test_units(tmp_path: Path) -> None:
    """GIVEN reading ahead, interning, the timeline, holds and limits, compiled to stop at undefined behaviour."""
    program = compile_program(tmp_path / "units", [Path(__file__).with_suffix(".cpp"), *TESTED])
    run = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "all hold\n", "")
