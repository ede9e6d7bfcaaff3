"""Layouts from tables: data files, one for a minor version, made by scripts/derive_layout.py.

A file is {"layouts": [{"first": "3.7.4", "last": "3.7.17", "free_threaded": false, "measured": ["3.7.16"],
"runtime": {...} or null, "offsets": {...}}, ...]}: the offsets hold from the version `first` to `last`, as far as is
known; `measured` are the releases whose DWARF or headers they were read from.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from weft.cpython.layout import RuntimeLayout, Source, Version, build

_LAYOUTS = Path(__file__).parent / "layouts"


def layouts_from_tables(version: Version, *, free_threaded: bool | None = None) -> list[Source]:
    """Return the layouts that this version may have, those whose range holds it first; empty if none is known."""
    entries = [e for e in _entries(version.major, version.minor) if free_threaded in (None, e["free_threaded"])]
    sources = [_source(entry, version) for entry in entries]
    return sorted(sources, key=lambda source: not source.in_range)


def _source(entry: dict[str, Any], version: Version) -> Source:
    runtime = RuntimeLayout(**entry["runtime"]) if entry["runtime"] else None
    layout = build(version, free_threaded=entry["free_threaded"], offsets=entry["offsets"])
    in_range = _release(entry["first"]) <= version[:3] <= _release(entry["last"])
    nearest = min(entry["measured"], key=lambda release: abs(_release(release)[2] - version.micro))
    return Source(layout, runtime, f"table {nearest}", in_range=in_range)


@cache
def _entries(major: int, minor: int) -> tuple[dict[str, Any], ...]:
    file = _LAYOUTS / f"{major}.{minor}.json"
    return tuple(json.loads(file.read_text())["layouts"]) if file.exists() else ()


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
