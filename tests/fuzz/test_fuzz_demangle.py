"""libFuzzer over the names of C++, for a short while.

For longer: `PYTHONPATH=tests python tests/fuzz/test_fuzz_demangle.py RUNS [FOLDER]`; the folder keeps what it
learns, and any input that fails.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fuzzing import Harness

HARNESS = Harness("fuzz_demangle", 4096)
LIBRARY = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"


def seeded(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """A corpus of symbols of the C++ library, without what they all begin with."""
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    rows = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    symbols = sorted({row.split()[-1].partition("@")[0] for row in rows.splitlines()})
    for number, symbol in enumerate([symbol for symbol in symbols if symbol.startswith("_Z")][::20]):
        (corpus / str(number)).write_text(symbol.removeprefix("_Z"))
    yield corpus, {}


@pytest.mark.usefixtures("clang")
def test_mutated_symbols(tmp_path: Path) -> None:
    """GIVEN symbols of a real library, changed by a fuzzer that sees which code each change has reached."""
    for corpus, env in seeded(tmp_path):
        HARNESS.assert_survives(corpus, 15, env)


if __name__ == "__main__":
    HARNESS.fuzz_long(seeded)
