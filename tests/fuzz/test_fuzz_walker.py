"""libFuzzer over the walker, for a short while, under AddressSanitizer and UndefinedBehaviorSanitizer.

Takes a clang with libFuzzer (Debian: clang and libclang-rt-dev). For longer: `python tests/fuzz/test_fuzz_walker.py
RUNS [FOLDER]` gives every snapshot that many mutated inputs, and keeps what it learns, and any input that fails, in the
folder. docs/design/0003-hostile-memory.md tells what has been run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from snapshots import Snapshot, all_snapshots

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent.parent / "native"
SOURCES = [HERE / "fuzz_walker.cpp", *(NATIVE / "python" / name for name in ("code.cpp", "frames.cpp", "runtime.cpp"))]
SECONDS = 20
MAX_INPUT = 1 + 16 * 8  # bytes: 16 mutations


def find_clang() -> str | None:
    """A clang++, the one without a number in its name or else the newest."""
    names = (path.name for folder in os.get_exec_path() for path in Path(folder).glob("clang++-*"))
    numbers = sorted((int(name[8:]) for name in names if name[8:].isdigit()), reverse=True)
    found = (shutil.which(name) for name in ["clang++", *(f"clang++-{number}" for number in numbers)])
    return next((path for path in found if path), None)


def build(clang: str, folder: Path) -> Path | None:
    """Compile the harness; None where this clang has no libFuzzer."""
    program = folder / "fuzz_walker"
    sanitize = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined"]
    probe = folder / "probe.cpp"
    probe.write_text(
        '#include <vector>\nextern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }\n'
    )
    if subprocess.run([clang, *sanitize, probe, "-o", program], check=False, capture_output=True).returncode != 0:
        return None
    subprocess.run([clang, "-std=c++20", "-O2", "-g", *sanitize, "-I", NATIVE, *SOURCES, "-o", program], check=True)
    return program


def texts(folder: Path) -> list[Path]:
    """The snapshots in the form that the harness reads."""
    found = []
    for path in all_snapshots():
        found.append(folder / path.name.replace(".json.gz", ".txt"))
        found[-1].write_text(Snapshot.load(path).text())
    return found


def fuzz(program: Path, corpus: Path, snapshots: list[Path], *limits: str) -> tuple[int, int, str]:
    """Run it: its exit status, how many inputs it tried, and its words."""
    corpus.mkdir(exist_ok=True)
    env = {
        **os.environ,
        "WEFT_SNAPSHOTS": ":".join(map(str, snapshots)),
        "ASAN_OPTIONS": "quarantine_size_mb=16",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    flags = ["-timeout=10", "-rss_limit_mb=2048", "-entropic=0", "-print_final_stats=1", f"-max_len={MAX_INPUT}"]
    run = subprocess.run(
        [program, *flags, *limits, f"-artifact_prefix={corpus}.failed-", corpus],
        check=False, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    tried = re.search(r"number_of_executed_units: (\d+)", run.stdout)
    return run.returncode, int(tried[1]) if tried else 0, run.stdout


@pytest.mark.skipif(find_clang() is None, reason="no clang on this machine")
def test_mutated_snapshots(tmp_path: Path) -> None:
    """GIVEN snapshots of every version, changed by a fuzzer that sees which code each change has reached."""
    clang = find_clang()
    assert clang is not None
    program = build(clang, tmp_path)
    if program is None:
        pytest.skip(f"{clang} has no libFuzzer")
    status, tried, words = fuzz(program, tmp_path / "corpus", texts(tmp_path), f"-max_total_time={SECONDS}")
    assert status == 0, words[-4000:]
    assert tried > 1000


def main(runs: str, keep: str = "") -> None:
    """Fuzz every snapshot by itself, and print a line for each."""
    folder = Path(keep or tempfile.mkdtemp(prefix="weft-fuzz-"))
    folder.mkdir(exist_ok=True)
    program = build(find_clang() or sys.exit("there is no clang"), folder) or sys.exit("this clang has no libFuzzer")
    for snapshot in texts(folder):
        status, tried, words = fuzz(program, snapshot.with_suffix(""), [snapshot], f"-runs={runs}")
        print(f"{snapshot.stem}: {tried} inputs, exit status {status}", flush=True)
        if status != 0:
            sys.exit(words[-4000:])


if __name__ == "__main__":
    main(*sys.argv[1:])
