"""What was derived of a module and is kept on disk, by build-id: $XDG_CACHE_HOME/weft/KIND/NAME.

Whoever reads it must not trust it: the folder is the user's, but files may be damaged, or of another weft.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def kept(kind: str, name: str) -> bytes | None:
    """Return what was kept under this name; None if there is nothing."""
    try:
        return cache_path(kind, name).read_bytes()
    except OSError:
        return None


def keep(kind: str, name: str, data: bytes) -> None:
    """Keep it. Where the cache cannot be written, it is derived again the next time."""
    path = cache_path(kind, name)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)


def cache_path(kind: str, name: str) -> Path:
    """Return where it is kept, whether or not it is there."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "weft" / kind / name
