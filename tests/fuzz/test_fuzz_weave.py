"""libFuzzer over the weaver, for a short while.

For longer: `PYTHONPATH=tests python tests/fuzz/test_fuzz_weave.py RUNS [FOLDER]`; the folder keeps what it
learns, and any input that fails.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fuzzing import Harness

HARNESS = Harness("fuzz_weave", 512)


def seeded(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """A corpus of stacks by chance: whole and damaged ones of each kind of anchor."""
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    chance = random.Random(1)
    for number in range(48):
        (corpus / str(number)).write_bytes(bytes([number % 3]) + chance.randbytes(40 * (1 + number % 12)))
    yield corpus, {}


@pytest.mark.usefixtures("clang")
def test_stacks(tmp_path: Path) -> None:
    """GIVEN whole stacks THEN they come out as they were built, each seam proven; GIVEN damaged ones THEN each frame
    comes out once, in its order, and what is called proven can be seen."""
    for corpus, env in seeded(tmp_path):
        HARNESS.assert_survives(corpus, 15, env)


if __name__ == "__main__":
    HARNESS.fuzz_long(seeded)
