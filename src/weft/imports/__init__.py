"""Profiles of other tools, made captures, for all that reads one. docs/formats.md tells what is kept of them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.capture import Capture
from weft.capture.file import read_header
from weft.errors import ImportedFileError, NotACaptureError
from weft.export import CAPTURE_ENDING
from weft.imports.writing import ImportWriter
from weft.scratch import scratch_folder

MOST_BYTES: Final = 256 << 20  # of a file, uncompressed
_CONTROL: Final = bytes({*range(32)} - {*b"\t\n\r\f"})

Read = Callable[[bytes, ImportWriter], None]


def open_recording(path: Path) -> Capture:
    """A capture, or another tool's profile as one: collapsed stacks, speedscope's format, pprof's.

    Raises CaptureError; ImportedFileError, one of them, where it is a profile that cannot be read.
    """
    if path.name.endswith(CAPTURE_ENDING) or not path.is_file() or _is_database(path):
        return Capture(path)
    data = _content(path)
    name, read = _reader(data)
    with scratch_folder() as folder:
        converted = folder / f"imported{CAPTURE_ENDING}"
        try:
            with ImportWriter(converted, path, name) as writer:
                read(data, writer)
        except ImportedFileError as error:
            raise ImportedFileError(f"{path} is no weft capture, and cannot be read as {name}: {error}") from error
        capture = Capture(converted)  # it has the file open, whose name may go
    capture.path = path
    return capture


def _is_database(path: Path) -> bool:
    try:
        return read_header(path) is not None
    except OSError:
        return True  # Capture tells why


def _content(path: Path) -> bytes:
    """The bytes of a file, uncompressed."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
            if data.startswith(b"\x1f\x8b"):
                file.seek(0)
                with gzip.open(file) as plain:
                    data = plain.read(MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise NotACaptureError(f"{path} is damaged: {error}") from error
    except OSError as error:
        raise NotACaptureError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise NotACaptureError(f"{path} is too large: profiles of other tools are read up to {MOST_BYTES >> 20} MiB")
    return data


def _reader(data: bytes) -> tuple[str, Read]:
    """What the content is, and what reads it."""
    if data.lstrip()[:1] == b"{":
        from weft.imports import speedscope

        return "speedscope", speedscope.read
    if data and len(data.translate(None, _CONTROL)) == len(data):
        from weft.imports import collapsed

        return "collapsed stacks", collapsed.read
    from weft.imports import pprof

    return "pprof", pprof.read
