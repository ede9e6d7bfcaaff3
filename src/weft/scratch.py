"""Folders for files that have no name of their own, where $TMPDIR says, or in /tmp."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import OutputError


def new_folder() -> Path:
    """Make one, which its user removes. OutputError."""
    from tempfile import mkdtemp  # with what it brings, a thirtieth of the start of a recording that does without it

    try:
        return Path(mkdtemp(prefix="weft-"))
    except OSError as error:
        raise OutputError(f"{error.strerror}; TMPDIR=FOLDER names another place for scratch files") from error


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """One that is gone afterwards, with all that is in it. OutputError."""
    from shutil import rmtree

    folder = new_folder()
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)
