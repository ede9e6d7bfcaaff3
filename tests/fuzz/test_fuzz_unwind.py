"""libFuzzer over CFI, code without CFI, tables, the unwinder and the kernel's walk, for a short while.

For longer: `PYTHONPATH=tests python tests/fuzz/test_fuzz_unwind.py RUNS [FOLDER]`; the folder keeps what it
learns, and any input that fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fuzzing import Harness

from weft.target.elf import ElfFile

HARNESS = Harness("fuzz_unwind", 1024)
SEEDS = ("/lib64/ld-linux-x86-64.so.2", "/bin/true")
# pushes, a call and the way back, as in CPython's perf trampolines; as hand-written kernels begin
STRAIGHT = bytes.fromhex("f30f1efa 55 4889e5 4157 4883ec18 ffd0 e800000000 4883c418 415f 5d c3")
KERNEL = bytes.fromhex("48 8d0424 4989e2 53 4157 4881ec00010000 4883e4c0 48895c2408 c5f877 c3")


def seeded(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """A corpus of the first entries of real sections with the code of their functions, as inputs of each kind."""
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    places = b"".join((4 * place + kind).to_bytes(2, "little") for place in range(0, 400, 7) for kind in range(3))
    for number, path in enumerate(SEEDS):
        with ElfFile(path) as file:
            section = file.contents(".eh_frame") or b""
            text = (file.contents(".text") or b"")[:120]
        for first in range(8):
            parts = HARNESS.max_input // 5
            frames = section[: (1 + first // 2) * parts]
            for name, code in (("own", text), ("straight", STRAIGHT), ("kernel", KERNEL)):
                half = (5 * parts - len(frames)) // 2
                rest = (code * half)[:half] + (places * half)[:half]
                (corpus / f"{number}-{first}-{name}").write_bytes(bytes([first]) + frames + rest)
    yield corpus, {}


@pytest.mark.usefixtures("clang")
def test_mutated_sections(tmp_path: Path) -> None:
    """GIVEN CFI and code of real modules, changed by a fuzzer that sees which of our code each change has reached."""
    for corpus, env in seeded(tmp_path):
        HARNESS.assert_survives(corpus, 15, env)


if __name__ == "__main__":
    HARNESS.fuzz_long(seeded)
