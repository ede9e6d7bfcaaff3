"""libFuzzer over the walker, for a short while.

Takes a clang with libFuzzer (Debian: clang and libclang-rt-dev). For longer: `python tests/fuzz/test_fuzz_walker.py
RUNS [FOLDER]` gives every snapshot that many mutated inputs, and keeps what it learns, and any input that fails, in the
folder. docs/design/0003-hostile-memory.md tells what has been run.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from fuzzing import build, fuzz
from snapshots import Snapshot, all_snapshots

SOURCES = [f"python/{name}.cpp" for name in ("code", "frames", "runtime")]
SECONDS = 20
MAX_INPUT = 1 + 16 * 8  # bytes: 16 mutations


def texts(folder: Path) -> list[Path]:
    """The snapshots in the form that the harness reads."""
    found = []
    for path in all_snapshots():
        found.append(folder / path.name.replace(".json.gz", ".txt"))
        found[-1].write_text(Snapshot.load(path).text())
    return found


def fuzz_snapshots(program: Path, corpus: Path, snapshots: list[Path], limit: str) -> tuple[int, int, str]:
    """Run it over these snapshots; see fuzz()."""
    env = {"WEFT_SNAPSHOTS": ":".join(map(str, snapshots))}
    return fuzz(program, corpus, limit, max_input=MAX_INPUT, env=env)


def test_mutated_snapshots(tmp_path: Path) -> None:
    """GIVEN snapshots of every version, changed by a fuzzer that sees which code each change has reached."""
    program = build(tmp_path, "fuzz_walker.cpp", SOURCES)
    status, tried, words = fuzz_snapshots(program, tmp_path / "corpus", texts(tmp_path), f"-max_total_time={SECONDS}")
    assert status == 0, words[-4000:]
    assert tried > 1000


def main(runs: str, keep: str = "") -> None:
    """Fuzz every snapshot by itself, and print a line for each."""
    folder = Path(keep or tempfile.mkdtemp(prefix="weft-fuzz-"))
    folder.mkdir(exist_ok=True)
    program = build(folder, "fuzz_walker.cpp", SOURCES)
    for snapshot in texts(folder):
        status, tried, words = fuzz_snapshots(program, snapshot.with_suffix(""), [snapshot], f"-runs={runs}")
        print(f"{snapshot.stem}: {tried} inputs, exit status {status}", flush=True)
        if status != 0:
            sys.exit(words[-4000:])


if __name__ == "__main__":
    main(*sys.argv[1:])
