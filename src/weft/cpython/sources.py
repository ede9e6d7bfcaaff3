"""Where a layout can be had for a module that tells none itself, the cheapest first. Each is proven before it counts.

DWARF that was derived before (cache.py), the tables for this release (microseconds), the DWARF of the module's own file
(0.1-0.4 s), that of a separate debug file (up to seconds), the tables for other releases of the minor version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from weft.cpython.cache import cached_layout, keep_layout
from weft.cpython.dwarf import layout_from_dwarf
from weft.cpython.layout import Source, Version
from weft.cpython.tables import layouts_from_tables
from weft.errors import LayoutError
from weft.target.elf import ElfError, ElfFile, Image
from weft.target.target import Target

_DEBUG = "/usr/lib/debug"


def layouts(target: Target, image: Image, version: Version) -> Iterator[Source]:
    """Yield the layouts that a module may have."""
    build_id = image.build_id
    if build_id and (kept := cached_layout(build_id, version.hex)):
        yield kept
    tables = layouts_from_tables(version)
    yield from (table for table in tables if table.in_range)
    with ExitStack() as stack:
        for path in _dwarf_files(target, image, stack):
            try:
                source = layout_from_dwarf(path, version)
            except LayoutError:
                continue
            if build_id:
                keep_layout(build_id, source)
            yield source
            break
    yield from (table for table in tables if not table.in_range)


def _dwarf_files(target: Target, image: Image, stack: ExitStack) -> Iterator[str]:
    """Yield the paths of the files that have the DWARF of a module: itself, then separate ones (gdb's ways)."""
    file = target.open_module(image)
    link = None
    if file:
        stack.enter_context(file)
        link = file.debug_link
        if file.section(".debug_info"):
            yield file.path
    build_id = image.build_id
    if not build_id:
        return
    folder = PurePosixPath(image.module.path).parent
    places = [f"{_DEBUG}/.build-id/{build_id[:2]}/{build_id[2:]}.debug"]
    if link:
        places += [f"{folder}/{link}", f"{folder}/.debug/{link}", f"{_DEBUG}{folder}/{link}"]
    for place in places:
        for path in target.paths(place):
            if Path(path).is_file() and _build_id(path) == build_id:
                yield path


def _build_id(path: str) -> str | None:
    try:
        with ElfFile(path) as file:
            return file.build_id
    except (OSError, ElfError):
        return None
