"""Where the debug information of a module may be: in its own file, or in one of its own, by build-id or by name.

The places are those of gdb's manual, "Debugging Information in Separate Files".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from weft.target.elf import DebugLink, ElfError, ElfFile
from weft.target.image import Image
from weft.target.target import Target

_FOLDER = "/usr/lib/debug"
_CHUNK = 1 << 20  # bytes read at once
_MAX_CHECKED = 1 << 30  # bytes of a file without a build-id


def debug_file(target: Target, image: Image, file: ElfFile | None) -> ElfFile | None:
    """Open the file that holds a module's debug information; None if there is none besides the module's own.

    `file`: the module's own, if it can be had. The target's own files, as a container has them, come before ours.
    """
    build_id = image.build_id
    with suppress(ElfError):
        link = file.debug_link if file else None
        for place in _places(image.module.path, build_id, link):
            for path in target.paths(place):
                found = _open(path)
                if found is None:
                    continue
                # An older or newer package may have left a file of the same name.
                if _belongs(found, build_id, link):
                    return found
                found.close()
    return None


def shared_file(target: Target, file: ElfFile) -> ElfFile | None:
    """Open the file into which dwz has moved what this one, with debug information, shares with others; None if there
    is none.
    """
    with suppress(ElfError):
        if link := file.shared_link:
            is_absolute = link.path.startswith("/")
            told = target.paths(link.path) if is_absolute else (str(Path(file.path).parent / link.path),)
            for path in (*target.paths(_place(link.build_id)), *told):
                found = _open(path)
                if found is None:
                    continue
                if _belongs(found, link.build_id, None):
                    return found
                found.close()
    return None


def _place(build_id: str) -> str:
    return f"{_FOLDER}/.build-id/{build_id[:2]}/{build_id[2:]}.debug"


def _places(path: str, build_id: str | None, link: DebugLink | None) -> Iterator[str]:
    if build_id and len(build_id) > 2:
        yield _place(build_id)
    if link:
        folder = path.rpartition("/")[0]
        yield f"{folder}/{link.name}"
        yield f"{folder}/.debug/{link.name}"
        yield f"{_FOLDER}{folder}/{link.name}"


def _belongs(found: ElfFile, build_id: str | None, link: DebugLink | None) -> bool:
    """Whether a debug file was made of this module: by build-id, or where that has none by the link's checksum."""
    try:
        if build_id is not None:
            return found.build_id == build_id
        return link is not None and found.size <= _MAX_CHECKED and _checksum(found) == link.checksum
    except ElfError:
        return False


def _checksum(file: ElfFile) -> int:
    checksum = 0
    for begin in range(0, file.size, _CHUNK):
        checksum = zlib.crc32(file.read(begin, min(_CHUNK, file.size - begin)), checksum)
    return checksum


def _open(path: str) -> ElfFile | None:
    try:
        return ElfFile(path)
    except (OSError, ElfError):
        return None
