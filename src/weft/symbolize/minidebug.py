"""Mini debug information: a symbol table that stripped files carry along, packed by xz, as Fedora's do.

Its form is that of gdb's manual, "MiniDebugInfo".
"""

from __future__ import annotations

import lzma

from weft.target.elf import ElfError, ElfFile

_SECTION = ".gnu_debugdata"
_MAX_MEMORY = 128 << 20  # bytes for unpacking; xz -9 needs 65 MiB (xz(1))
_MAX_SIZE = 64 << 20  # bytes unpacked; packed, those of large libraries have some 100 KB


def mini_debug_file(file: ElfFile) -> ElfFile | None:
    """Open the ELF file that a section of this one holds; None if there is none. OSError, ElfError."""
    packed = file.contents(_SECTION)
    if packed is None:
        return None
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_MEMORY)
    try:
        data = unpacker.decompress(packed, max_length=_MAX_SIZE)
    except lzma.LZMAError as error:
        raise ElfError(f"{_SECTION}: {error}") from None
    if not unpacker.eof:
        raise ElfError(f"{_SECTION} is truncated, or holds more than {_MAX_SIZE:,} bytes")
    return ElfFile.of_bytes(_SECTION, data)
