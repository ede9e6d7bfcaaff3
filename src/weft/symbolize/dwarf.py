"""What symbolic leaves out of debug information: asked of a reader in a process of its own (dwarf_reader.py)."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.readers import ReaderError, answer_of, start_reader
from weft.target.elf import ElfFile

_READER = Path(__file__).with_name("dwarf_reader.py")


class DebugInformation:
    """Of one file, and of the one into which dwz has moved what it shares with others. All methods: ReaderError."""

    def __init__(self, file: ElfFile, shared: ElfFile | None) -> None:
        """Note the files, which have to stay open; nothing is read before it is asked for."""
        self._files = [file, *([shared] if shared else [])]
        self._reader: subprocess.Popen[bytes] | None = None

    def line(self, address: int) -> tuple[str, int] | None:
        """Return the file and line that the code at an address comes from; None if nothing tells that."""
        found = self._ask("line", address)
        return (found[0], found[1]) if found else None

    def dwo(self, address: int) -> str | None:
        """Return the name of the .dwo file that alone tells of the functions there; None if this file does."""
        found: str | None = self._ask("dwo", address)
        return found

    def names(self, address: int) -> list[str]:
        """Return the symbols, or else the names, of the functions there, outermost first; "" for unknown ones."""
        found: list[str] = self._ask("names", address)
        return found

    def close(self) -> None:
        """End the reader."""
        if self._reader:
            self._reader.kill()
            self._reader.communicate()
            self._reader = None

    def _ask(self, what: str, address: int) -> Any:
        reader = self._reader = self._reader or start_reader(_READER, self._files)
        assert reader.stdin
        assert reader.stdout
        with suppress(BrokenPipeError):
            reader.stdin.write(f"{json.dumps([what, address])}\n".encode())
            reader.stdin.flush()
        answer = reader.stdout.readline()
        if not answer:
            self._reader = None
            answer_of(reader)
            raise ReaderError("its reader has ended")
        told, why = json.loads(answer)
        if why:
            raise ReaderError(why)
        return told
