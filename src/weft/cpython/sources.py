"""Where a layout can be had for a module that tells none itself, the cheapest first. Each is proven before it counts.

DWARF that was derived before (cache.py), the tables for this release (microseconds), the DWARF of the module's own file
(0.1-0.4 s), that of a separate debug file (up to seconds), the tables for other releases of the minor version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from weft.cpython.cache import cached_layout, keep_layout
from weft.cpython.layout import Source, Version
from weft.cpython.tables import layouts_from_tables
from weft.errors import LayoutError
from weft.target.debugfiles import debug_file
from weft.target.image import Image
from weft.target.target import Target


def layouts(target: Target, image: Image, version: Version) -> Iterator[Source]:
    """Yield the layouts that a module may have."""
    build_id = image.build_id
    if build_id and (kept := cached_layout(build_id, version.hex)):
        yield kept
    tables = layouts_from_tables(version)
    yield from (table for table in tables if table.in_range)
    from weft.cpython.dwarf import layout_from_dwarf  # seldom needed, and it brings subprocess with it

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
    """Yield the paths of the files that have the DWARF of a module: itself, then a separate one."""
    file = target.open_module(image)
    if file:
        stack.enter_context(file)
        if file.section(".debug_info"):
            yield file.own_path
    if separate := debug_file(target, image, file):
        stack.enter_context(separate)
        yield separate.own_path
