"""A layout from DWARF: the structs of the very build that runs. A process of its own reads them (dwarf_reader.py)."""

from __future__ import annotations

import json
from pathlib import Path

from weft.cpython.layout import RuntimeLayout, Source, Version, build
from weft.errors import LayoutError
from weft.readers import ReaderError, answer_of, start_reader
from weft.target.elf import ElfError, ElfFile

_READER = Path(__file__).with_name("dwarf_reader.py")


def layout_from_dwarf(path: str, version: Version) -> Source:
    """Derive the layout from the DWARF in an ELF file. `version` must be known already.

    LayoutError if the file has none, or lacks a struct that this version needs.
    """
    try:
        with ElfFile(path) as file:
            answer = answer_of(start_reader(_READER, [file]), json.dumps(version).encode())
    except (OSError, ElfError, ReaderError) as error:
        raise LayoutError(f"the DWARF of {path} cannot be read: {error}") from error
    free_threaded, offsets, runtime = json.loads(answer)
    layout = build(version, free_threaded=free_threaded, offsets=offsets)
    return Source(layout, RuntimeLayout(**runtime) if runtime else None, "DWARF")
