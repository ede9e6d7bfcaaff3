"""Makes a SymCache of a file with debug information, for stdout: python lines_reader.py FILE. Run by lines.py."""

from __future__ import annotations

import sys

from symbolic.debuginfo import Archive
from symbolic.exceptions import SymbolicError


def main() -> None:
    """Read the file that the argument names; where that fails, the last line on stderr says why."""
    try:
        made = Archive.open(sys.argv[1]).get_object(arch="x86_64").make_symcache()
        sys.stdout.buffer.write(made.open_stream().read())  # type: ignore[no-untyped-call]
    except (SymbolicError, LookupError, MemoryError, OSError) as error:
        sys.exit(str(error).rpartition("\n")[2].strip().removeprefix("caused by: ") or type(error).__name__)


if __name__ == "__main__":
    main()
