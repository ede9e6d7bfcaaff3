"""An ELF object that lies in a process's memory, as bytes: what a JIT compiler tells a debugger."""

from __future__ import annotations

from weft.target.elf import ElfError, ElfFile

_ET_REL = 1


class ElfObject(ElfFile):
    """Sections and symbols as of a file. ElfError if it is none."""

    def __init__(self, data: bytes) -> None:
        """Read the headers. A relocatable object has no program headers."""
        self.path = ""
        self._data = data
        self.header = self.read(0, 64)
        if self.header[:6] != b"\x7fELF\x02\x01":
            raise ElfError("no 64-bit little-endian ELF object")
        self.sections = self._read_sections()

    @property
    def is_relocatable(self) -> bool:
        """Whether it was to be linked; its sections tell where they have been put."""
        return int.from_bytes(self.header[16:18], "little") == _ET_REL

    def close(self) -> None:
        """Nothing is open."""

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes, or raise ElfError."""
        if not 0 <= offset <= offset + size <= len(self._data):
            raise ElfError("truncated")
        return self._data[offset : offset + size]

    def _placed(self, value: int, section: int) -> int:
        inside = self.is_relocatable and section < len(self.sections)
        return value + (self.sections[section].address if inside else 0)
