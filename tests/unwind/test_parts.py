"""Parts of functions that no symbol tells, beside the symbols that the compiler had for them."""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from weft.target.elf import ElfError, ElfFile
from weft.target.parts import parts_of

# Six blocks that gcc lays apart, since they call what is seldom run.
CASES = "".join(
    f"case {i}: if (numbers[i] == {100 * i}) sum += seldom(sum + {i}); sum ^= {i} + sum; break;\n" for i in range(6)
)
SOURCE = f"""
__attribute__((cold, noinline)) int seldom(int number) {{ __asm__ volatile("" : "+r"(number)); return number + 1; }}
__attribute__((noinline)) int other(int number) {{ __asm__ volatile("" : "+r"(number)); return 2 * number; }}
int split(int *numbers, int count) {{
    int sum = 0;
    for (int i = 0; i < count; ++i) {{
        switch (numbers[i] & 7) {{
            {CASES}
            default: sum += 3;
        }}
        __asm__ volatile("" : "+r"(sum));
    }}
    return sum;
}}
int whole(int number) {{ for (int i = 0; i < number; ++i) number += other(i); return other(number); }}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    source = folder / "parts.c"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", source, "-o", folder / "parts.so"], check=True)
    return folder / "parts.so"


def test_as_the_symbols_tell(library: Path, tmp_path: Path) -> None:
    """GIVEN a function that gcc has laid in two parts THEN the other one is told of the stripped file, and of no other
    function any."""
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, library], check=True)
    with ElfFile(str(library)) as file:
        told = file.ranges_of(("split.cold",))["split.cold"]
    with ElfFile(str(stripped)) as file:
        assert not file.ranges_of(("split.cold",))
        functions = {name: (begin, begin + size) for begin, size, name in file.functions()}
        parts = {name: parts_of(file, *range_) for name, range_ in functions.items()}
    assert parts.pop(b"split") == told
    assert {b"whole", b"other", b"seldom"} <= parts.keys()
    assert not any(parts.values()), parts


def test_of_a_damaged_file(library: Path) -> None:
    """GIVEN nonsense in what tells of functions THEN there is no part, an ElfError, or one that holds the true one."""
    data = library.read_bytes()
    with ElfFile(str(library)) as file:
        sections = [section for name in (".eh_frame_hdr", ".eh_frame") if (section := file.section(name))]
        ((begin, end),) = file.ranges_of(("split",))["split"]
        whole = parts_of(file, begin, end)
    chance = random.Random(6)
    lost = 0
    for _ in range(500):
        damaged = bytearray(data)
        section = chance.choice(sections)
        at = section.offset + chance.randrange(section.size - 4)
        damaged[at : at + 4] = chance.randbytes(4)
        with suppress(ElfError), ElfFile.of_bytes("parts.so", bytes(damaged)) as file:
            parts = parts_of(file, begin, end)
            assert parts in ([], whole) or all(low <= whole[0][0] < high for low, high in parts), parts
            lost += not parts
    assert lost > 5  # it has met what matters
