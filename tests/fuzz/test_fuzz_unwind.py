"""libFuzzer over CFI, tables and the unwinder, for a short while.

For longer: `python tests/fuzz/test_fuzz_unwind.py RUNS [FOLDER]`; the folder keeps what it learns, and any input that
fails.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from fuzzing import build, fuzz

from weft.target.elf import ElfFile

SOURCES = [f"unwind/{name}.cpp" for name in ("cfi", "rule", "table", "unwinder")]
SEEDS = ("/lib64/ld-linux-x86-64.so.2", "/bin/true")
SECONDS = 15
MAX_INPUT = 4096  # bytes


def seed(corpus: Path) -> None:
    """The first entries of real sections, as inputs of each kind."""
    corpus.mkdir()
    for number, path in enumerate(SEEDS):
        with ElfFile(path) as file:
            section = file.contents(".eh_frame") or b""
        for first in range(16):
            (corpus / f"{number}-{first}").write_bytes(bytes([first]) + section[: MAX_INPUT - 1])


def test_mutated_sections(tmp_path: Path) -> None:
    """GIVEN CFI of real modules, changed by a fuzzer that sees which code each change has reached."""
    program = build(tmp_path, "fuzz_unwind.cpp", SOURCES)
    seed(tmp_path / "corpus")
    limit = f"-max_total_time={SECONDS}"
    status, tried, words = fuzz(program, tmp_path / "corpus", limit, max_input=MAX_INPUT)
    assert status == 0, words[-4000:]
    assert tried > 1000


def main(runs: str, keep: str = "") -> None:
    """Fuzz, and say how many inputs were tried."""
    folder = Path(keep or tempfile.mkdtemp(prefix="weft-fuzz-"))
    folder.mkdir(exist_ok=True)
    program = build(folder, "fuzz_unwind.cpp", SOURCES)
    if not (folder / "corpus").exists():
        seed(folder / "corpus")
    status, tried, words = fuzz(program, folder / "corpus", f"-runs={runs}", max_input=MAX_INPUT)
    print(f"{tried} inputs, exit status {status}")
    if status != 0:
        sys.exit(words[-4000:])


if __name__ == "__main__":
    main(*sys.argv[1:])
