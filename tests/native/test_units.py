"""Runs test_units.cpp: the parts of native/ that no binding shows."""

from __future__ import annotations

import subprocess
from pathlib import Path

from zig import compile_with_zig

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NATIVE = ROOT / "native"
TESTED = [
    *(NATIVE / "memory" / name for name in ("image.cpp", "process.cpp", "read_ahead.cpp")),
    *(NATIVE / "sampler" / name for name in ("stacks.cpp", "timeline.cpp", "runs.cpp", "python_target.cpp")),
    *(NATIVE / "sampler" / name for name in ("cpu_clock.cpp", "kernel_clocks.cpp", "kernel_ring.cpp")),
    *(NATIVE / "sampler" / name for name in ("perf_event.cpp", "proc.cpp")),
    *(NATIVE / "python" / name for name in ("code.cpp", "code_identity.cpp", "frames.cpp", "runtime.cpp")),
    *(NATIVE / "unwind" / name for name in ("code_map.cpp", "code_rule.cpp", "rule.cpp", "stack_copy.cpp")),
    *(NATIVE / "unwind" / name for name in ("table.cpp", "unwinder.cpp")),
    *(NATIVE / "weave" / name for name in ("weave.cpp",)),
]


def test_units(tmp_path: Path) -> None:
    """GIVEN reading ahead, interning, the timeline, holds and limits, compiled to stop at undefined behaviour."""
    sanitize = ["-fsanitize=undefined", "-fno-sanitize-recover=undefined"]
    warn = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
    include = ["-I", NATIVE, "-I", ROOT / "bpf"]
    sources = [HERE / "test_units.cpp", *TESTED]
    program = compile_with_zig("c++", tmp_path / "units", "-std=c++20", "-O1", *sanitize, *warn, *include, *sources)
    run = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "all hold\n", "")
