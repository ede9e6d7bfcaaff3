"""The sources of what was sampled: read when the recording ends, through the roots of the processes that named them.

A target can name any file. Only what it may read itself is taken along, and no symbolic link leads out of its root.
"""

from __future__ import annotations

import io
import os
import stat
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from weft.capture import MAX_SOURCE_BYTES, Source
from weft.target.opening import NotAFileError, open_file_within

_MAX_FILES: Final = 2_000
_MAX_BYTES: Final = 32 << 20  # of all texts
_MAX_PROCESSES: Final = 64  # whose folders are kept open
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class _Place(NamedTuple):
    """Where a process finds files, and as whom. The folders stay open after its end."""

    root: int
    folder: int  # that it works in
    user: int
    groups: frozenset[int]


class SourceBook:
    """The files that frames name. For use from one thread."""

    def __init__(self, start_unix_ns: int) -> None:
        """Note when the recording began: what was changed later may not be what ran."""
        self._start_unix_ns = start_unix_ns
        self._places: dict[int, _Place | None] = {}  # by the recording's number of the process
        self._files: dict[str, int | None] = {}  # file -> the process that named it first; None: native code
        self.left_out = 0  # files that were too many

    def name(self, file: str, process: int | None, pid: int = 0) -> None:
        """Note that a frame of a process names a file; None: native code that several processes may share."""
        if process is not None and process not in self._places:
            self._places[process] = _place_of(pid) if len(self._places) < _MAX_PROCESSES else None
        if not file or file.startswith("<") or file in self._files:
            return
        if len(self._files) >= _MAX_FILES:
            self.left_out += 1
            return
        self._files[file] = process

    def read(self) -> Iterator[Source]:
        """Read all of them."""
        left = _MAX_BYTES
        for file, process in self._files.items():
            wanted = self._places.values() if process is None else (self._places[process],)
            places = [place for place in wanted if place is not None]
            source = Source(file, None, "its process had ended before its folders could be seen")
            if process is None and not file.startswith("/"):
                places, source = [], Source(file, None, "its name is relative to where it was compiled")
            for place in places:
                source = self._read(place, file)
                if source.text is not None:
                    break
            if source.text is not None and len(source.text) > left:
                source = Source(file, None, "the sources together are too large")
            left -= len(source.text or "")
            yield source

    def close(self) -> None:
        """Let go of the folders."""
        for place in self._places.values():
            if place is not None:
                os.close(place.root)
                os.close(place.folder)
        self._places.clear()

    def _read(self, place: _Place, file: str) -> Source:
        try:
            fd = open_file_within(place.root if file.startswith("/") else place.folder, file)
        except NotAFileError:
            return Source(file, None, NotAFileError.REASON)
        except (OSError, ValueError) as error:
            return Source(file, None, f"cannot be opened: {getattr(error, 'strerror', None) or error}")
        try:
            status = os.fstat(fd)
            if not _may_read(place, status):
                return Source(file, None, "the program itself may not read it")
            data = _read_all(fd)
        except OSError as error:
            return Source(file, None, f"cannot be read: {error.strerror}")
        finally:
            os.close(fd)
        if len(data) > MAX_SOURCE_BYTES:
            return Source(file, None, "is larger than 1 MiB")
        text = _text(data)
        if text is None or len(text.encode(errors="backslashreplace")) > MAX_SOURCE_BYTES:
            return Source(file, None, "is no text")
        changed = status.st_mtime_ns > self._start_unix_ns
        return Source(file, text, "it was changed after the recording began" if changed else "")


def _place_of(pid: int) -> _Place | None:
    """Return where a process finds its files; None if it has ended, or is not ours to look into."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        user, groups = int(fields["Uid"].split()[1]), [fields["Gid"].split()[1], *fields["Groups"].split()]
        root = os.open(f"/proc/{pid}/root", _FOLDER)
    except (OSError, KeyError, ValueError):
        return None
    try:
        return _Place(root, os.open(f"/proc/{pid}/cwd", _FOLDER), user, frozenset(map(int, groups)))
    except OSError:
        os.close(root)
        return None


def _read_all(fd: int) -> bytes:
    """Read as much of a file as a source may have, and a byte more if there is one. OSError."""
    data = b""
    while len(data) <= MAX_SOURCE_BYTES and (part := os.read(fd, MAX_SOURCE_BYTES + 1 - len(data))):
        data += part
    return data


def _may_read(place: _Place, status: os.stat_result) -> bool:
    """Whether the process may read a file, by its mode alone."""
    if place.user == 0:
        return True
    if status.st_uid == place.user:
        return bool(status.st_mode & stat.S_IRUSR)
    if status.st_gid in place.groups:
        return bool(status.st_mode & stat.S_IRGRP)
    return bool(status.st_mode & stat.S_IROTH)


def _text(data: bytes) -> str | None:
    """Return a file as text by its coding line (PEP 263), UTF-8 without one; None if it is none."""
    if b"\0" in data:
        return None
    encoding = "utf-8-sig"
    with suppress(SyntaxError):
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    try:
        return data.decode(encoding).replace("\r\n", "\n")
    except (UnicodeDecodeError, LookupError):
        return None
