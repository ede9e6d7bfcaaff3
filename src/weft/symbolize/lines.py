"""Which functions and lines lie at an address, by a module's debug information; the reader of that is `symbolic`.

On damaged DWARF it may ask for any amount of memory, and ends its process where it gets none: it runs in one of its own
(lines_reader.py). What that has made, a SymCache, is kept by build-id.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft import cache
from weft.readers import ReaderError, answer_of, start_reader
from weft.target.code import CodeModule
from weft.target.elf import ElfFile

_KIND = "symbols"
_READER = Path(__file__).with_name("lines_reader.py")
_importing = threading.Lock()  # symbolic's modules import each other, which fails where several threads begin at once


def lines_of(module: CodeModule, file: ElfFile) -> Any:
    """Return what a file with debug information tells, a symbolic.SymCache; None, and a problem, where that fails."""
    with _importing:
        from symbolic.exceptions import SymbolicError
        from symbolic.symcache import SymCache

    name = cache.name_of(module.build_id, file.fileno()) if module.build_id else None
    if name:
        with suppress(SymbolicError, OSError):
            kept = SymCache.open(str(cache.cache_path(_KIND, name)))  # type: ignore[no-untyped-call]
            if kept.is_latest_version:
                return kept
    try:
        data = answer_of(start_reader(_READER, [file]))
        made = SymCache.from_bytes(data)  # type: ignore[no-untyped-call]
    except (SymbolicError, ReaderError) as error:
        module.problems.append(f"the debug information in {file.path} cannot be read: {error}")
        return None
    if name:
        cache.keep(_KIND, name, data)
    return made
