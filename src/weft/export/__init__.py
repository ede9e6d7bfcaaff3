"""Writes a capture in the formats that other tools read. docs/formats.md tells what each one holds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.errors import OutputError
from weft.profile.tables import ACTIVE_VIEW, View

if TYPE_CHECKING:
    from weft.capture import Capture

# Format -> what the names of its files end with. A .weft file is the capture itself, which only recording writes.
ENDINGS: Final = {
    "text": ".txt",
    "html": ".html",
    "collapsed": ".folded",
    "speedscope": ".speedscope.json",
    "pprof": ".pb.gz",
    "gecko": ".gecko.json.gz",
    "chrometrace": ".trace.json",
}
FORMATS: Final = tuple(ENDINGS)
CAPTURE_ENDING: Final = ".weft"
_TIMES_ONLY: Final = frozenset({"gecko", "chrometrace"})
BINARY: Final = frozenset({"pprof", "gecko"})


def format_of(path: Path) -> str | None:
    """The format that a file's name asks for, None for a capture; raises OutputError for a name that tells none."""
    for name, ending in ENDINGS.items():
        if path.name.endswith(ending):
            return name
    if path.name.endswith(CAPTURE_ENDING):
        return None
    known = " ".join((CAPTURE_ENDING, *ENDINGS.values()))
    raise OutputError(f"no format is known by the name {path.name}; end it with one of {known}, or give -f FORMAT")


def check_mode(name: str, mode: str) -> None:
    """Raise OutputError where a format cannot show what a recording in this mode has."""
    if mode == "alloc" and name in _TIMES_ONLY:
        raise OutputError(
            f"{name} shows times, and --mode alloc records allocations; take html, text, speedscope or pprof"
        )


def write(capture: Capture, name: str, path: Path | None, view: View = ACTIVE_VIEW) -> None:
    """Writes a capture in the format `name`, one of FORMATS, to a file or to stdout.

    A file appears whole or not at all. Raises OutputError, and CaptureError where the capture is damaged.
    """
    terminal = path is None and sys.stdout.isatty()
    if terminal and name in BINARY:
        raise OutputError(f"{name} is binary and a terminal cannot show it; write it to a file with -o FILE")
    check_mode(name, str(capture.meta.get("mode", "")))
    chunks = render(capture, name, view, terminal=terminal)
    if path is None:
        sys.stdout.buffer.writelines(chunks)
        sys.stdout.buffer.flush()
        return
    write_file(path, chunks)


def render(capture: Capture, name: str, view: View, *, terminal: bool = False) -> Iterator[bytes]:
    """A capture in the format `name`, one of FORMATS. Raises CaptureError where it is damaged."""
    match name:
        case "text":
            from weft.report import text

            return text.render(capture, view, terminal=terminal)
        case "html":
            return _render_html(capture, view)
        case "collapsed":
            from weft.export import collapsed

            return collapsed.render(capture, view)
        case "speedscope":
            from weft.export import speedscope

            return speedscope.render(capture, view)
        case "pprof":
            from weft.export import pprof

            return pprof.render(capture, view)
        case "gecko":
            from weft.export import gecko

            return gecko.render(capture, view)
        case "chrometrace":
            from weft.export import chrometrace

            return chrometrace.render(capture, view)
        case _:
            raise ValueError(f"no such format: {name}")


def _render_html(capture: Capture, view: View) -> Iterator[bytes]:
    from weft.report import html

    yield html.render(capture, view).encode()


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a file that appears whole or not at all; raises OutputError."""
    try:
        if path.exists() and not path.is_file():  # /dev/stdout, a pipe
            with path.open("wb") as file:
                file.writelines(chunks)
        else:
            _replace_file(path.resolve(), chunks)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def _replace_file(path: Path, chunks: Iterable[bytes]) -> None:
    from tempfile import NamedTemporaryFile  # a recording that becomes a capture does without it

    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:100]}.", delete=False) as file:
        try:
            file.writelines(chunks)
            file.flush()
            os.fchmod(file.fileno(), _mode(path))
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink()
            raise


def _mode(path: Path) -> int:
    """Permissions of the file as it is, or as a new one gets them."""
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask
