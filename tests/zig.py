"""The compiler among weft's build requirements, for the C and C++ of the tests."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import ziglang

ZIG = Path(ziglang.__file__).with_name("zig")
GLIBC = f"{platform.machine()}-linux-gnu.2.17"  # the extension's
MUSL = "x86_64-linux-musl"


def compile_with_zig(language: str, output: Path, *arguments: object, target: str = GLIBC) -> Path:
    """Compile "c" or "c++" into `output`; relative paths in the arguments are from its folder.

    C++ has no debug information (-s), as the extension has none: zig would make a C++ library with it, which takes
    minutes, beside the one that it has made for the extension.
    """
    command = [ZIG, *{"c": ["cc"], "c++": ["c++", "-s"]}[language], "-target", target]
    subprocess.run([*command, *map(str, arguments), "-o", output], cwd=output.parent, check=True)
    return output
