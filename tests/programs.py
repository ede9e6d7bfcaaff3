"""The C++ programs of the tests, which ninja builds: a source that several of them have is compiled once.

`python tests/programs.py` builds all that this machine can build, in build/tests; a test builds what it needs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ninja
import ziglang
from ninja.ninja_syntax import Writer
from zig import GLIBC, ZIG

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "build/tests"
DEMANGLER = Path(ziglang.__file__).parent / "lib/libcxxabi/src"


@dataclass(frozen=True)
class Program:
    """What it is built of: sources, from the root of the repository."""

    sources: Sequence[str]
    fuzzer: bool = False  # libFuzzer's
    flags: Sequence[str] = ()


@dataclass(frozen=True)
class Toolchain:
    """Commands that compile and link."""

    name: str
    fuzzers: bool  # whether it is for those of libFuzzer, or for the others
    of_c: Sequence[object]
    of_cpp: Sequence[object]
    link: Sequence[object]


def _native(folder: str, *names: str) -> list[str]:
    return [f"native/{folder}/{name}.cpp" for name in names]


# They walk the stack of a process that is told to them (native/told_process.h).
_WALKERS = [
    *_native("memory", "late_pages", "process", "read_ahead"),
    *_native("python", "code", "code_identity", "frames", "runtime"),
    *_native("sampler", "python_target", "tracer"),
    *_native("unwind", "cfi", "code_map", "code_rule", "rule", "stack_copy", "table", "unwinder"),
    *_native("weave", "weave"),
]
_KERNEL_WALK = ["tests/bpf/host.c", *_native("sampler", "kernel_process", "kernel_sample")]
_TESTED = [
    *_native("memory", "image"),
    *_native(
        "sampler", "cpu_clock", "kernel_clocks", "kernel_ring", "perf_event", "proc", "runs", "stacks", "timeline"
    ),
]
PROGRAMS = {
    "units": Program(["tests/native/test_units.cpp", *_TESTED, *_WALKERS]),
    "step_stacks": Program(["tests/truth/step_stacks.cpp", *_WALKERS]),
    "compare_walks": Program(
        ["tests/bpf/compare_walks.cpp", *_KERNEL_WALK, *_native("unwind", "kernel_table"), *_WALKERS]
    ),
    "fuzz_demangle": Program(
        ["tests/fuzz/fuzz_demangle.cpp", *_native("symbols", "demangle")],
        fuzzer=True,
        # Its headers want a macro of libc++, for what cannot be.
        flags=["-isystem", str(DEMANGLER), "-D_LIBCPP_VERBOSE_ABORT(...)=std::abort()"],
    ),
    "fuzz_unwind": Program(
        [
            "tests/fuzz/fuzz_unwind.cpp",
            *_KERNEL_WALK,
            *_native("memory", "late_pages"),
            *_native("python", "code_identity", "runtime"),
            *_native("unwind", "cfi", "code_map", "code_rule", "kernel_table", "rule", "stack_copy"),
            *_native("unwind", "table", "unwinder"),
        ],
        fuzzer=True,
    ),
    "fuzz_walker": Program(
        [
            "tests/fuzz/fuzz_walker.cpp",
            *_KERNEL_WALK,
            *_native("memory", "late_pages"),
            *_native("python", "code", "code_identity", "frames", "runtime"),
            *_native("unwind", "cfi", "code_map", "code_rule", "kernel_table", "rule", "table"),
        ],
        fuzzer=True,
    ),
    "fuzz_weave": Program(
        [
            "tests/fuzz/fuzz_weave.cpp",
            *_native("unwind", "cfi", "code_map", "code_rule", "rule", "stack_copy", "table", "unwinder"),
            *_native("weave", "weave"),
        ],
        fuzzer=True,
    ),
}
_INCLUDE = [f"-I{ROOT / folder}" for folder in ("native", "bpf", "tests/bpf", "tests/native")]
# Undefined behaviour stops them; BPF's loads need no alignment, and x86's do not either.
_STOP = ["-fno-sanitize=alignment", "-fno-sanitize-recover=undefined"]


def _zig() -> Toolchain:
    flags = ["-target", GLIBC, "-O1", "-fsanitize=undefined", *_STOP]
    # Without debug information, as the extension: else zig makes another C++ library, which takes minutes.
    cpp = [ZIG, "c++", "-s", *flags]
    strict = ["-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Werror", *_INCLUDE]
    return Toolchain("zig", False, [ZIG, "cc", *flags, *_INCLUDE], [*cpp, *strict], cpp)


def _clang() -> Toolchain:
    clang = find_clang()
    assert clang, "there is no clang++ with libFuzzer"
    flags = [clang, "-O1", "-gline-tables-only", "-fsanitize=fuzzer,address,undefined", *_STOP]
    return Toolchain("clang", True, [*flags, "-x", "c", *_INCLUDE], [*flags, "-std=c++20", *_INCLUDE], flags)


@cache
def find_clang() -> str | None:
    """A clang++ with libFuzzer, the one without a number in its name or else the newest."""
    numbers: list[int] = []
    for folder in os.get_exec_path():
        with suppress(OSError):  # after `su`, another user's folders may be in PATH
            names = [path.name for path in Path(folder).iterdir()]
            numbers += [int(found[1]) for name in names if (found := re.fullmatch(r"clang\+\+-(\d+)", name))]
    paths = (shutil.which(name) for name in ["clang++", *(f"clang++-{number}" for number in sorted(numbers)[::-1])])
    return next((path for path in paths if path and _has_fuzzer(path)), None)


def _has_fuzzer(clang: str) -> bool:
    harness = b'#include <vector>\nextern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }\n'
    command = [clang, "-fsanitize=fuzzer,address,undefined", "-x", "c++", "-", "-o", os.devnull]
    return subprocess.run(command, check=False, capture_output=True, input=harness).returncode == 0


def build(name: str) -> Path:
    """Build a program, or what has changed of it."""
    _build(_clang() if PROGRAMS[name].fuzzer else _zig(), [name])
    return BUILT / name


def _build(toolchain: Toolchain, names: Sequence[str]) -> None:
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        file = _write(toolchain)
        command = [Path(ninja.BIN_DIR) / "ninja", "-C", BUILT, "-f", file.name, *names]
        run = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, run.stdout


def _write(toolchain: Toolchain) -> Path:
    path = BUILT / f"{toolchain.name}.ninja"
    with path.open("w") as file:
        writer = Writer(file, width=1000)
        writer.variable("builddir", toolchain.name)  # ninja's notes
        for rule, command in (("c", toolchain.of_c), ("cpp", toolchain.of_cpp)):
            text = f"{shlex.join(map(str, command))} $flags -MMD -MF $out.d -c $in -o $out"
            writer.rule(rule, text, depfile="$out.d", deps="gcc")
        writer.rule("link", f"{shlex.join(map(str, toolchain.link))} $in -o $out")
        done = set()
        for name, program in PROGRAMS.items():
            if program.fuzzer != toolchain.fuzzers:
                continue
            folder = f"{toolchain.name}-{name}" if program.flags else toolchain.name
            objects = []
            for source in program.sources:
                objects.append(f"{folder}/{source}.o")
                if objects[-1] not in done:
                    done.add(objects[-1])
                    flags = {"flags": shlex.join(program.flags)}
                    writer.build(objects[-1], source.rpartition(".")[2], str(ROOT / source), variables=flags)
            writer.build(name, "link", objects)
    return path


def main() -> None:
    """Build all of them."""
    for toolchain in (_zig(), *([_clang()] if find_clang() else [])):
        _build(toolchain, [])


if __name__ == "__main__":
    main()
