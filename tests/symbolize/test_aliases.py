"""Functions that have many names, as those of the C library have, and no debug information."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cplusplus_lines import told

from weft.symbolize.names import readable

# A function, by the name that it is to be told by, and its other names.
NAMES = {
    "seeks": ["__GI_seeks", "__seeks", "__libc_seeks", "__GI___seeks", *(f"__libc_seeks_{n}" for n in range(20))],
    "lies_behind": [],
    "__clones": ["__GI___clones"],
    "_Z5weavev": ["__GI_weave"],
}


def test_the_name_that_people_know(tmp_path: Path) -> None:
    """GIVEN many names for one function THEN it is told by the one with the fewest underscores, and never by the C
    library's for itself; THEN the one behind it has its own name, however many those are."""
    source, library = tmp_path / "names.s", tmp_path / "libnames.so"
    with source.open("w") as text:
        for function, others in NAMES.items():
            text.writelines(f".type {name}, @function\n.globl {name}\n{name}:\n" for name in (*others, function))
            text.write("ret\n")
            text.writelines(f".size {name}, 1\n" for name in (*others, function))
    subprocess.run(["gcc", "-shared", "-nostdlib", source, "-o", library], check=True)
    rows = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout.splitlines()
    begins = {name: int(address, 16) for address, _, name in map(str.split, rows)}
    found, problems = told(library, [begins[name] + 1 for name in NAMES])
    assert problems == []
    assert [name for frames in found.values() for name, _, _ in frames] == [*map(readable, NAMES)]
