"""Debug files from servers: debuginfod's protocol, where DEBUGINFOD_URLS names some.

What the variables mean, and that a server has to bring 100 KB in the time that it is given, is as elfutils documents it
(debuginfod_find_debuginfo(3), debuginfod-client-config(7)). What has come is kept on disk, by build-id.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from weft import cache
from weft.target.elf import ElfError, ElfFile

if TYPE_CHECKING:
    from http.client import HTTPResponse  # where it is used: HTTP and TLS take long to load, and few name a server

_KIND = "debuginfod"
_NOT_FOUND = 404
_TIMEOUT = "90"  # seconds, unless DEBUGINFOD_TIMEOUT tells another
_MAX_SIZE = 4 << 30  # bytes, unless DEBUGINFOD_MAXSIZE tells another
_LEAST = 100 << 10  # bytes in each _TIMEOUT
_CHUNK = 1 << 16


class _ServerError(Exception):
    """A server does not do what it should."""


class Debuginfod:
    """The servers. For use from any thread."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._urls = [url.rstrip("/") for url in environment.get("DEBUGINFOD_URLS", "").split()]
        self._timeout = _positive(environment.get("DEBUGINFOD_TIMEOUT") or _TIMEOUT)  # None: any time
        self._max_size = _positive(environment.get("DEBUGINFOD_MAXSIZE", "")) or _MAX_SIZE
        self._failed: dict[str, str] = {}  # server -> why it is asked no more

    @property
    def warnings(self) -> list[str]:
        """A line for each server that failed; with its words, which are not escaped."""
        return [f"debuginfod server {url} is left out: {reason}" for url, reason in self._failed.items()]

    def debug_file(self, build_id: str) -> ElfFile | None:
        """Open the file with the debug information of a module; None if no server has it."""
        return self._find(build_id, "debuginfo")

    def executable(self, build_id: str) -> ElfFile | None:
        """Open the module itself; None if no server has it."""
        return self._find(build_id, "executable")

    def _find(self, build_id: str, what: str) -> ElfFile | None:
        if not self._urls:
            return None
        from http.client import HTTPException

        name = f"{build_id}.{what}"
        if kept := _open(cache.cache_path(_KIND, name), build_id):
            return kept
        for url in self._urls:
            if url in self._failed:
                continue
            try:
                if self._fetch(f"{url}/buildid/{build_id}/{what}", name, build_id):
                    return _open(cache.cache_path(_KIND, name), build_id)
            except (OSError, HTTPException, ValueError, _ServerError) as error:
                self._failed.setdefault(url, str(error) or type(error).__name__)
        return None

    def _fetch(self, url: str, name: str, build_id: str) -> bool:
        """Ask for a file, and keep it; False if the server does not have it. Also raises what urllib does."""
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        if not url.startswith(("http://", "https://")):
            raise _ServerError("its URL does not begin with http:// or https://")
        try:
            answer = urlopen(Request(url, headers={"User-Agent": "weft"}), timeout=self._timeout)  # noqa: S310
        except HTTPError as error:
            error.close()
            if error.code == _NOT_FOUND:
                return False
            raise
        with answer, cache.keeping(_KIND, name) as part:
            self._copy(answer, part)
            part.flush()
            file = _open(Path(part.name), build_id)
            if file is None:
                raise _ServerError(f"what it sent for {build_id} is another file, or damaged")
            file.close()
        return True

    def _copy(self, answer: HTTPResponse, part: IO[bytes]) -> None:
        """Write what the server sends to a file."""
        size, at_begin, begin = 0, 0, time.monotonic()
        while chunk := answer.read1(_CHUNK):
            part.write(chunk)
            size += len(chunk)
            if size > self._max_size:
                raise _ServerError(f"it sent more than {self._max_size:,} bytes (DEBUGINFOD_MAXSIZE)")
            now = time.monotonic()
            if size - at_begin >= _LEAST:
                at_begin, begin = size, now
            elif self._timeout is not None and now - begin > self._timeout:
                raise _ServerError(f"it sent less than 100 KB in {self._timeout:g} s (DEBUGINFOD_TIMEOUT)")
        told = answer.headers.get("Content-Length", "")
        if told.isdecimal() and int(told) != size:
            raise _ServerError(f"it sent {size:,} of {int(told):,} bytes")


def _open(path: Path, build_id: str) -> ElfFile | None:
    """Open a file if it is of this build."""
    try:
        file = ElfFile(str(path))
    except (OSError, ElfError):
        return None
    try:
        if file.build_id == build_id:
            return file
    except ElfError:
        pass
    file.close()
    return None


def _positive(text: str) -> float | None:
    """Return the number that a variable holds; None if it holds none, or one that stands for no limit."""
    try:
        return number if (number := float(text)) > 0 else None
    except ValueError:
        return None
