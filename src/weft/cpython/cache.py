"""Layouts that were derived from DWARF, kept on disk by build-id (weft/cache.py).

A layout from here is proven like any other, so a damaged file costs a moment and no truth.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields

from weft import cache
from weft.cpython.layout import Layout, RuntimeLayout, Source

_KIND = "layouts"


def cached_layout(build_id: str, version: int) -> Source | None:
    """Return the layout that was kept for a build; None if there is none, or it is of another version."""
    try:
        kept = json.loads(cache.kept(_KIND, f"{build_id}.json") or b"")
        if kept["layout"].keys() != {field.name for field in fields(Layout)}:
            return None  # kept by a weft that knew fewer fields
        layout = Layout(**kept["layout"])
        runtime = RuntimeLayout(**kept["runtime"]) if kept["runtime"] else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    whole = all(value is None or type(value) is int for value in layout.numbers().values())
    return Source(layout, runtime, "DWARF, kept") if whole and layout.version == version else None


def keep_layout(build_id: str, source: Source) -> None:
    """Keep a layout for a build. Where the cache cannot be written, the layout is derived again the next time."""
    kept = {"layout": asdict(source.layout), "runtime": source.runtime._asdict() if source.runtime else None}
    cache.keep(_KIND, f"{build_id}.json", json.dumps(kept).encode())
