"""libFuzzer over the walker and the kernel's walk, for a short while.

Takes a clang with libFuzzer (Debian: clang and libclang-rt-dev). For longer: `PYTHONPATH=tests
python tests/fuzz/test_fuzz_walker.py RUNS [FOLDER]` gives every snapshot that many mutated inputs, and keeps what it
learns, and any input that fails, in the folder. docs/design/0003-hostile-memory.md tells what has been run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fuzzing import Harness
from snapshots import Snapshot, all_snapshots

MUTATIONS = 16
HARNESS = Harness("fuzz_walker", 1 + 8 * MUTATIONS)


def texts(folder: Path) -> list[Path]:
    """The snapshots in the form that the harness reads."""
    found = []
    for path in all_snapshots():
        found.append(folder / path.name.replace(".json.gz", ".txt"))
        found[-1].write_text(Snapshot.load(path).text())
    return found


def one_by_one(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """A corpus for every snapshot."""
    for text in texts(folder):
        yield text.with_suffix(""), {"WEFT_SNAPSHOTS": str(text)}


@pytest.mark.usefixtures("clang")
def test_mutated_snapshots(tmp_path: Path) -> None:
    """GIVEN snapshots of every version, changed by a fuzzer that sees which code each change has reached."""
    env = {"WEFT_SNAPSHOTS": ":".join(map(str, texts(tmp_path)))}
    HARNESS.assert_survives(tmp_path / "corpus", 20, env)


if __name__ == "__main__":
    HARNESS.fuzz_long(one_by_one)
