"""Real shared objects, and their bytes damaged by chance."""

from __future__ import annotations

import functools
import lzma
import random
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.target.elf import ElfFile

# One needs nothing from elsewhere, so that it takes a tenth of a millisecond to read: most inputs are made of that.
SMALL = r"""
namespace space {
template <typename T> inline T twice(T value) { return value + value; }
struct Shape { virtual double area() const { return twice(side) * side; } double side = 2; };
struct Square final : Shape { double area() const override { return Shape::area() + 1; } };
}
extern "C" int known(int);
static inline int inner(int x) { return known(x) * 3 + 1; }
extern "C" int outer(int n) { int sum = 0; for (int i = 0; i < n; ++i) sum += inner(i); return sum; }
extern "C" double area(const space::Shape* shape) { return shape->area() + space::Square().area(); }
"""
LARGE = (
    SMALL
    + r"""
#include <string>
#include <vector>
extern "C" int pushes(int n) { std::vector<int> v; for (int i = 0; i < n; ++i) v.push_back(inner(i)); return v.size(); }
std::string text(int n) { return std::string(n, 'x') + std::to_string(n); }
"""
)
FLAGS = (["-gdwarf-4"], ["-gdwarf-5"], ["-gdwarf-5", "-gz=zlib"], ["-g0"])
WITH_LINES = 3  # so many of those
LARGE_ONES = 0.1  # of all inputs
NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFF0, 0xFFFFFFFF, 1 << 33, 1 << 40, 1 << 63, (1 << 64) - 1)
_MOST_ADDRESSES = 24


@dataclass(frozen=True)
class Library:
    """A shared object's bytes, where its sections lie in them, [begin, begin + size), and where their headers are."""

    data: bytes
    sections: tuple[tuple[int, int], ...]
    headers: int
    addresses: tuple[int, ...]  # of code: in functions, and in the procedure linkage table

    @classmethod
    def read(cls, path: Path) -> Library:
        """Read one that is sound. Its code is left as it is."""
        data = path.read_bytes()
        with ElfFile(str(path)) as file:
            kept = (".text", ".comment")
            stored = [section for section in file.sections if section.size and section.type != 8]
            sections = tuple((section.offset, section.size) for section in stored if section.name not in kept)
            functions = {(begin, size) for begin, size, _ in file.functions() if size}
            plt = [section.address + 16 for section in stored if section.name.startswith(".plt")]
            inside = [begin + size * part // 4 for begin, size in sorted(functions) for part in range(4)]
        addresses = tuple(sorted({*plt, *inside[:: 1 + len(inside) // _MOST_ADDRESSES]}))
        return cls(data, sections, int.from_bytes(data[40:48], "little"), addresses)

    def damaged(self, chance: random.Random) -> bytes:
        """Its bytes, damaged: see there."""
        return damaged(chance, self.data, self.sections, self.headers)


def choose(chance: random.Random) -> Library:
    """One of them; few are large."""
    return chance.choice(libraries(LARGE if chance.random() < LARGE_ONES else SMALL))


@functools.cache
def libraries(source: str) -> list[Library]:
    """Shared objects with DWARF of each kind, without any, and with mini debug information."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        code, library, packed = (Path(folder) / name for name in ("library.cpp", "library.so", "packed"))
        code.write_text(source)
        for flags in FLAGS:
            subprocess.run(["g++", *flags, "-O2", "-shared", "-fPIC", code, "-o", library], check=True)
            made.append(Library.read(library))
        packed.write_bytes(lzma.compress(library.read_bytes()))
        subprocess.run(["objcopy", "--strip-all", "--add-section", f".gnu_debugdata={packed}", library], check=True)
        made.append(Library.read(library))
    return made


def damaged(chance: random.Random, data: bytes, sections: Sequence[tuple[int, int]], headers: int) -> bytes:
    """With other bytes, numbers and copies in some sections, and now and then in the headers, or cut."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16, 64))):
        begin, size = chance.choice(sections)
        at = begin + chance.randrange(min(size, chance.choice((16, 64, size))))
        match chance.randrange(4):
            case 0:
                out[at] = chance.randrange(256)
            case 1:
                width = chance.choice((1, 2, 4, 8))
                out[at : at + width] = chance.choice(NUMBERS).to_bytes(8, "little")[:width]
            case 2:
                out[at : at + 10] = chance.choice((b"\xff", b"\x80", b"\0")) * 10
            case 3:
                other = begin + chance.randrange(size)
                piece = out[other : other + chance.randrange(1, 64)]
                out[at : at + len(piece)] = piece
    if chance.random() < 0.2:
        at = headers + 8 * chance.randrange((len(data) - headers) // 8)
        out[at : at + 8] = chance.choice((*NUMBERS, chance.randrange(len(data)))).to_bytes(8, "little")
    return bytes(out[: len(data) if chance.random() < 0.9 else chance.randrange(64, len(data))])
