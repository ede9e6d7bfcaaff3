#!/usr/bin/env python3
"""Derive a layout table from the DWARF of a CPython build, and put it into src/weft/cpython/layouts.

    scripts/derive_layout.py [--first 3.7.4] [--last 3.7.17] 3.7.16=/path/to/libpython3.7m.so.1.0 ...

Each file is an ELF file with DWARF: libpython, a static python, a separate debug file, or, where only the headers of a
release can be had (Debian's libpython3.x-dev), scripts/layout_structs.c compiled against them:

    cc -g -w -shared -fPIC -I/usr/include/python3.13 -I/usr/include/python3.13/internal [-DPy_GIL_DISABLED=1] \\
        -o structs.so scripts/layout_structs.c

The version before `=` is the build's.
--first and --last tell for which releases the layout holds; without them, for the whole minor version.
An entry of the same offsets is widened, others are left alone.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from weft.cpython.dwarf import layout_from_dwarf
from weft.cpython.layout import Source, Version

LAYOUTS = Path(__file__).parent.parent / "src/weft/cpython/layouts"
DERIVED = {"version", "pointer_size", "free_threaded", "instruction_kind", "names_are_bytes", "frame_code_tags"}
DERIVED |= {"frame_owner_shim", "thread_size", "frame_size"}


def release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def entry(source: Source) -> dict[str, object]:
    """Return the part of a table entry that is measured."""
    numbers = asdict(source.layout)
    return {
        "free_threaded": bool(source.layout.free_threaded),
        "runtime": asdict(source.runtime) if source.runtime else None,
        "offsets": {name: value for name, value in numbers.items() if name not in DERIVED and value is not None},
    }


def add(path: Path, version: str, first: str, last: str, measured: dict[str, object]) -> None:
    """Add an entry to a table file, or widen the entry that has these offsets."""
    entries = json.loads(path.read_text())["layouts"] if path.exists() else []
    same = next((e for e in entries if all(e[key] == value for key, value in measured.items())), None)
    if same is None:
        entries.append({"first": first, "last": last, "measured": [version], **measured})
    else:
        same["first"] = min(same["first"], first, key=release)
        same["last"] = max(same["last"], last, key=release)
        same["measured"] = sorted({*same["measured"], version}, key=release)
    entries.sort(key=lambda e: (e["free_threaded"], release(e["first"])))
    path.write_text(json.dumps({"layouts": entries}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", help="first release that the layout holds for")
    parser.add_argument("--last", help="last release that the layout holds for")
    parser.add_argument("builds", nargs="+", metavar="VERSION=FILE")
    options = parser.parse_args()
    for build in options.builds:
        text, _, file = build.partition("=")
        version = Version(*release(text))
        minor = f"{version.major}.{version.minor}"
        source = layout_from_dwarf(file, version)
        first, last = options.first or f"{minor}.0", options.last or f"{minor}.99"
        add(LAYOUTS / f"{minor}.json", text, first, last, entry(source))
        print(f"{text}: {minor}.json")


if __name__ == "__main__":
    main()
