"""The compiler among weft's build requirements, for the C of the tests; programs.py has the C++."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import ziglang

ZIG = Path(ziglang.__file__).with_name("zig")
GLIBC = f"{platform.machine()}-linux-gnu.2.17"  # the extension's
MUSL = "x86_64-linux-musl"


def compile_with_zig(output: Path, *arguments: object, target: str = GLIBC) -> Path:
    """Compile C into `output`; relative paths in the arguments are from its folder."""
    subprocess.run([ZIG, "cc", "-target", target, *map(str, arguments), "-o", output], cwd=output.parent, check=True)
    return output
