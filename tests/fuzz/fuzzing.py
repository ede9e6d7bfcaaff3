"""Building and running libFuzzer's harnesses, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent.parent / "native"


def find_clang() -> str | None:
    """A clang++, the one without a number in its name or else the newest."""
    names = (path.name for folder in os.get_exec_path() for path in Path(folder).glob("clang++-*"))
    numbers = sorted((int(name[8:]) for name in names if name[8:].isdigit()), reverse=True)
    found = (shutil.which(name) for name in ["clang++", *(f"clang++-{number}" for number in numbers)])
    return next((path for path in found if path), None)


def build(folder: Path, harness: str, sources: Sequence[str]) -> Path:
    """Compile a harness with these files of native/; skips the test where there is no clang with libFuzzer."""
    clang = find_clang()
    if clang is None:
        pytest.skip("there is no clang")
    program = folder / Path(harness).stem
    sanitize = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined"]
    probe = folder / "probe.cpp"
    probe.write_text(
        '#include <vector>\nextern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }\n'
    )
    if subprocess.run([clang, *sanitize, probe, "-o", program], check=False, capture_output=True).returncode != 0:
        pytest.skip(f"{clang} has no libFuzzer")
    files = [HERE / harness, *(NATIVE / source for source in sources)]
    subprocess.run([clang, "-std=c++20", "-O2", "-g", *sanitize, "-I", NATIVE, *files, "-o", program], check=True)
    return program


def fuzz(
    program: Path, corpus: Path, *limits: str, max_input: int, env: Mapping[str, str] | None = None
) -> tuple[int, int, str]:
    """Run it: its exit status, how many inputs it tried, and its words. `max_input` is in bytes."""
    corpus.mkdir(exist_ok=True)
    settings = {
        **os.environ,
        "ASAN_OPTIONS": "quarantine_size_mb=16",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        **(env or {}),
    }
    flags = ["-timeout=10", "-rss_limit_mb=2048", "-entropic=0", "-print_final_stats=1", f"-max_len={max_input}"]
    run = subprocess.run(
        [program, *flags, *limits, f"-artifact_prefix={corpus}.failed-", corpus],
        check=False, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    tried = re.search(r"number_of_executed_units: (\d+)", run.stdout)
    return run.returncode, int(tried[1]) if tried else 0, run.stdout
