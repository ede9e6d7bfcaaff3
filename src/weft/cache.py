"""What was derived of a module and is kept on disk, by build-id: $XDG_CACHE_HOME/weft/KIND/NAME.

Whoever reads it must not trust it: the folder is the user's, but files may be damaged, or of another weft.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def kept(kind: str, name: str) -> bytes | None:
    """Return what was kept under this name; None if there is nothing."""
    try:
        return cache_path(kind, name).read_bytes()
    except OSError:
        return None


def keep(kind: str, name: str, data: bytes) -> None:
    """Keep it. Where the cache cannot be written, it is derived again the next time."""
    with suppress(OSError), keeping(kind, name) as part:
        part.write(data)


@contextmanager
def keeping(kind: str, name: str) -> Iterator[IO[bytes]]:
    """Give a file to write to, which is kept under this name if the block ends without an error. OSError."""
    from tempfile import NamedTemporaryFile  # what is kept already is read without it

    path = cache_path(kind, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(prefix=f"{name}.", dir=path.parent, delete=False) as part:
        try:
            yield part
            part.flush()
            Path(part.name).replace(path)
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise


def name_of(build_id: str, fd: int) -> str:
    """Return the name for what an open file with this build-id tells.

    A file may claim the build-id of another, such as libc. So what those of other users tell is kept apart by owner.
    """
    owner = os.fstat(fd).st_uid
    return build_id if owner in (0, os.geteuid()) else f"{build_id}-{owner}"


def cache_path(kind: str, name: str) -> Path:
    """Return where it is kept, whether or not it is there."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "weft" / kind / name
