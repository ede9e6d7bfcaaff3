"""Where the debug information of a module may be: in its own file, or in one of its own, by build-id or by name.

The places are those of gdb's manual, "Debugging Information in Separate Files".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from weft.target.elf import ElfError, ElfFile

_FOLDER = "/usr/lib/debug"


def debug_file(file: ElfFile, path: str, roots: tuple[str, ...]) -> ElfFile | None:
    """Open the file that holds a module's debug information; None if there is none besides the module's own.

    `path`: where the target has the module; `roots`: what its paths begin with for us, the likeliest first.
    """
    build_id = file.build_id
    with suppress(ElfError):
        for place in _places(build_id, file.debug_link, path):
            for root in roots:
                found = _open(root + place)
                if found is None:
                    continue
                # An older or newer package may have left a file of the same name.
                if build_id is None or found.build_id == build_id:
                    return found
                found.close()
    return None


def _places(build_id: str | None, link: str | None, path: str) -> Iterator[str]:
    if build_id and len(build_id) > 2:
        yield f"{_FOLDER}/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    if link:
        folder = path.rpartition("/")[0]
        yield f"{folder}/{link}"
        yield f"{folder}/.debug/{link}"
        yield f"{_FOLDER}{folder}/{link}"


def _open(path: str) -> ElfFile | None:
    try:
        return ElfFile(path)
    except (OSError, ElfError):
        return None
