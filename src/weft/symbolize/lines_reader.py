"""Makes a SymCache of a file with debug information, for stdout: python lines_reader.py FILE. Run by lines.py."""

from __future__ import annotations

import os
import sys

from symbolic.debuginfo import Archive
from symbolic.exceptions import SymbolicError

os.environ["RUST_BACKTRACE"] = "0"  # symbolic sets it; that takes 1 s of a reader that ends
READ_ERRORS = (SymbolicError, LookupError, MemoryError, OSError)


def symcache_of(path: str) -> bytes:
    """Return the SymCache of a file. READ_ERRORS; where symbolic gets no memory, it ends the process."""
    made = Archive.open(path).get_object(arch="x86_64").make_symcache()
    data: bytes = made.open_stream().read()  # type: ignore[no-untyped-call]
    return data


def main() -> None:
    """Read the file that the argument names; where that fails, the last line on stderr says why."""
    try:
        sys.stdout.buffer.write(symcache_of(sys.argv[1]))
    except READ_ERRORS as error:
        sys.exit(str(error).rpartition("\n")[2].strip().removeprefix("caused by: ") or type(error).__name__)


if __name__ == "__main__":
    main()
