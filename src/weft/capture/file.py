"""What tells a capture from any other file, for the writer and the reader alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

APPLICATION_ID: Final = 0x77656674  # "weft"
SCHEMA_VERSION: Final = 7
SCHEMA: Final = Path(__file__).with_name("schema.sql")
MAX_BATCH_BYTES: Final = 16 << 20  # of the runs of one batch, before compression
MAX_SOURCE_BYTES: Final = 1 << 20  # of one file's text

SIDE_FILES: Final = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database that is in use


class Header(NamedTuple):
    """What the first page of an SQLite file says of its content."""

    application_id: int
    user_version: int
    page_size: int  # bytes
    file_size: int  # bytes; whole pages, also while it is written


def read_header(path: Path) -> Header | None:
    """The header of an SQLite file; None if the file is anything else. Raises OSError.

    Offsets: https://www.sqlite.org/fileformat.html#the_database_header
    """
    with path.open("rb") as file:
        page = file.read(100)
        file_size = os.fstat(file.fileno()).st_size
    if len(page) < 100 or not page.startswith(b"SQLite format 3\0"):
        return None
    return Header(
        application_id=int.from_bytes(page[68:72], "big"),
        user_version=int.from_bytes(page[60:64], "big"),
        page_size=max(512, int.from_bytes(page[16:18], "big")),
        file_size=file_size,
    )


def is_capture(path: Path) -> bool:
    """Whether the file is a capture of any version. Raises OSError."""
    header = read_header(path)
    return header is not None and header.application_id == APPLICATION_ID
