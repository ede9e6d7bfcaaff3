"""Copies a capture, also one that is being written, with names that it does not have yet."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from weft.capture.writer import ADD_FUNCTION, ADD_STRING, claim, clean, function_rows, output_errors
from weft.errors import OutputError
from weft.sample import Frame


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

    def number(text: str) -> int:
        return strings.setdefault(clean(text), last + 1 + len(strings))

    rows = [row for frame in sorted(functions.keys() - have) for row in function_rows(frame, functions[frame], number)]
    copy.executemany(ADD_STRING, [(string, text) for text, string in strings.items()])
    copy.executemany(ADD_FUNCTION, rows)
