"""libFuzzer over CFI, tables and the unwinder, for a short while.

For longer: `python tests/fuzz/test_fuzz_unwind.py RUNS [FOLDER]`; the folder keeps what it learns, and any input that
fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fuzzing import Harness

from weft.target.elf import ElfFile

HARNESS = Harness(
    "fuzz_unwind.cpp",
    [f"unwind/{name}.cpp" for name in ("cfi", "code_map", "code_rule", "rule", "stack_copy", "table", "unwinder")],
    4096,
)
SEEDS = ("/lib64/ld-linux-x86-64.so.2", "/bin/true")


def seeded(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """A corpus of the first entries of real sections, as inputs of each kind."""
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, path in enumerate(SEEDS):
        with ElfFile(path) as file:
            section = file.contents(".eh_frame") or b""
        for first in range(16):
            (corpus / f"{number}-{first}").write_bytes(bytes([first]) + section[: HARNESS.max_input - 1])
    yield corpus, {}


def test_mutated_sections(tmp_path: Path) -> None:
    """GIVEN CFI of real modules, changed by a fuzzer that sees which code each change has reached."""
    for corpus, env in seeded(tmp_path):
        HARNESS.assert_survives(tmp_path, corpus, 15, env)


if __name__ == "__main__":
    HARNESS.fuzz_long(seeded)
