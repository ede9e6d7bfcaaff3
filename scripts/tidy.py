"""Run clang-tidy over native/, the way that zig compiles it.

The build's compile commands name a wrapper of `zig c++`, which adds the headers of its own libc++ and libc by itself.
clang-tidy is given the same ones, as `zig c++ -v` tells them. With file names as arguments: those only.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def zig_flags(compiler: str, target: str) -> list[str]:
    """The -isystem and -D flags that zig hands to its clang for this target."""
    run = subprocess.run(
        [compiler, "-target", target, "-v", "-fsyntax-only", "-x", "c++", "/dev/null"],
        capture_output=True,
        text=True,
        check=False,  # zig -v is run for its words
        cwd=ROOT,
    )
    line = next(line for line in run.stderr.splitlines() if " -cc1 " in line)
    words = shlex.split(line)
    flags = []
    for flag, value in itertools.pairwise(words):
        if flag == "-isystem":
            flags += [flag, str(ROOT / value)]
        elif flag == "-D":
            flags.append(flag + value)
    return flags


def commands() -> list[dict[str, Any]]:
    """The compile commands of our own sources, of the newest build, with zig's flags spelled out."""
    databases = sorted(ROOT.glob("build/cp*/compile_commands.json"), key=lambda path: path.stat().st_mtime)
    if not databases:
        sys.exit("tidy: nothing was built yet; run `make` build first")
    entries = json.loads(databases[-1].read_text())
    ours = [entry for entry in entries if Path(entry["file"]).is_relative_to(ROOT / "native")]
    extra: list[str] = []
    for entry in ours:
        compiler, *words = shlex.split(entry.pop("command"))
        target = words[words.index("-target") + 1]
        extra = extra or zig_flags(compiler, target)
        # A triple without the glibc version, which only zig understands.
        words[words.index(target)] = target.split(".")[0]
        entry["arguments"] = ["clang++", "-nostdinc", "-nostdinc++", *words, *extra]
    return ours


def main() -> int:
    """Check all sources, or those named; gives 1 if any has a finding."""
    entries = commands()
    folder = ROOT / "build" / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries, indent=1))
    wanted = [str(Path(name).resolve()) for name in sys.argv[1:]] or [entry["file"] for entry in entries]
    missing = [name for name in wanted if name not in {entry["file"] for entry in entries}]
    if missing:
        sys.exit(f"tidy: not in the build: {' '.join(missing)}")

    def check(name: str) -> bool:
        run = subprocess.run(
            [BIN / "clang-tidy", "--quiet", "-p", folder, name], check=False, capture_output=True, text=True
        )
        if run.returncode != 0:
            print(run.stdout, run.stderr, sep="", flush=True)
        return run.returncode == 0

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return 0 if all(list(pool.map(check, wanted))) else 1


if __name__ == "__main__":
    sys.exit(main())
