"""Copies a capture, also one that is being written, with names that it does not have yet."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from weft.capture.writer import ADD_FUNCTION, ADD_STRING, claim, clean, output_errors
from weft.errors import OutputError
from weft.sample import Frame, FrameFlag, FrameKind


def copy_capture(source: Path, path: Path, functions: Mapping[int, tuple[Frame, ...]]) -> None:
    """Write what `source` holds now into a finished capture at `path`; `functions`: of frames, outermost first.

    It replaces an old capture there, and refuses to replace anything else. OutputError.
    """
    if path.exists() and path.samefile(source):
        raise OutputError(f"cannot write {path}: it is what is shown")
    with output_errors(path):
        real_path = claim(path)
        uri = f"file:{quote(str(source.absolute()))}?mode=ro"
        with (
            closing(sqlite3.connect(uri, uri=True)) as original,
            closing(sqlite3.connect(real_path, isolation_level=None)) as copy,
        ):
            original.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            copy.execute("BEGIN")
            _add_functions(copy, functions)
            copy.execute("INSERT OR IGNORE INTO meta SELECT 'end_ns', value FROM meta WHERE key = 'written_ns'")
            copy.execute("INSERT OR IGNORE INTO meta VALUES ('ended', '')")
            copy.execute("COMMIT")


def _add_functions(copy: sqlite3.Connection, functions: Mapping[int, tuple[Frame, ...]]) -> None:
    """Add those of frames that have none yet."""
    ((last,),) = copy.execute("SELECT coalesce(max(id), 0) FROM string")
    have = {number for (number,) in copy.execute("SELECT DISTINCT frame FROM function")}
    strings: dict[str, int] = {}
    rows = []
    for number in sorted(functions.keys() - have):
        for depth, frame in enumerate(functions[number]):
            file = frame.file if frame.line or frame.kind is FrameKind.KERNEL else ""
            texts = clean(frame.function), clean(file)
            name_id, file_id = (strings.setdefault(text, last + 1 + len(strings)) for text in texts)
            flags = frame.flags & (FrameFlag.MACHINERY | FrameFlag.WRAPPER)
            rows.append((number, depth, int(frame.kind), name_id, file_id, frame.line, int(flags)))
    copy.executemany(ADD_STRING, [(number, text) for text, number in strings.items()])
    copy.executemany(ADD_FUNCTION, rows)
