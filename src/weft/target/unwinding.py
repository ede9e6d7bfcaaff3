"""Unwind tables of modules: from their files, or from what is mapped of them; kept on disk by build-id."""

from __future__ import annotations

from collections.abc import Iterator

from weft import _native, cache
from weft.errors import MemoryReadError
from weft.target.elf import LAST_ADDRESS, ElfError, ElfFile
from weft.target.image import Image

_KIND = "unwind"
_PT_LOAD, _PT_GNU_EH_FRAME = 1, 0x6474E550
_PCREL_SDATA4 = 0x1B
_PROLOGUE = 128  # bytes of a function from which its first rules are made
_MAX_FUNCTIONS = 1 << 16  # without CFI; OpenBLAS has some thousands
# Each is one function, put together of all objects that are linked. Its symbol tells no size (glibc's crti.S).
_OF_ONE_FUNCTION = (".init", ".fini")
_MAX_FRAMES = 256 << 20  # bytes of .eh_frame; libtorch has 20 MB


def table_of(image: Image, file: ElfFile | None) -> _native.UnwindTable:
    """Return the table of a module, as it was kept or newly compiled. ElfError, MemoryReadError.

    Kept is what a file tells: memory may become another program's while it is read.
    """
    name = image.build_id
    if name and file:
        name = cache.name_of(name, file.fileno())
    data = cache.kept(_KIND, name) if name else None
    table = _native.UnwindTable.load(data) if data else None
    if table is None:
        table = table_of_file(file) if file else table_of_image(image)
        if name and file:
            cache.keep(_KIND, name, table.save())
    return table


def table_of_file(file: ElfFile) -> _native.UnwindTable:
    """Compile a file's .eh_frame, and .debug_frame for what that leaves out. ElfError."""
    table = _native.UnwindTable.build(list(_frames_of(file)))
    if file.entry is not None and not table.covers(file.entry):
        table = table.with_entry(file.entry)
    functions = list(_uncovered(file, table))
    return table.with_functions(functions) if functions else table


def _frames_of(file: ElfFile) -> Iterator[tuple[bytes, int, bool]]:
    """Yield the sections with CFI as UnwindTable.build wants them."""
    for name, is_eh in ((".eh_frame", True), (".debug_frame", False)):
        if section := file.section(name):
            yield file.read(section.offset, section.size), section.address, is_eh


def _uncovered(file: ElfFile, table: _native.UnwindTable) -> Iterator[tuple[int, int, bytes]]:
    """Yield (address, end, first bytes) of functions without CFI, as of hand-written kernels; none overlaps another."""
    last = 0
    sections = [section for section in file.sections if section.is_code]
    uncovered = {(at, size) for at, size, _ in file.function_symbols(table.uncovered)}
    uncovered |= {(s.address, s.size) for s in sections if s.name in _OF_ONE_FUNCTION and not table.covers(s.address)}
    functions = {(at, size) for at, size in uncovered if 0 < size <= LAST_ADDRESS - at}
    for address, size in sorted(functions)[:_MAX_FUNCTIONS]:
        inside = next((s for s in sections if 0 <= address - s.address <= s.size - size), None)
        if address < last or not inside or table.covers(address + size - 1):
            continue
        last = address + size
        yield address, last, file.read(inside.offset + address - inside.address, min(size, _PROLOGUE))


def table_of_image(image: Image) -> _native.UnwindTable:
    """Compile the .eh_frame that is mapped, which .eh_frame_hdr points to (Linux Standard Base 5.0, 10.6.2).

    ElfError, MemoryReadError. How long it is, is not told: it is read to the end of its segment, and what follows it
    there is no CFI.
    """
    header = next((s for s in image.segments if s.type == _PT_GNU_EH_FRAME), None)
    if header is None:
        raise ElfError("there is no .eh_frame_hdr")
    place = image.bias + header.address
    version, encoding = image.memory.read(place, 2)
    if version != 1 or encoding != _PCREL_SDATA4:
        raise ElfError("the .eh_frame_hdr is of an unknown form")
    begin = header.address + 4 + int.from_bytes(image.memory.read(place + 4, 4), "little", signed=True)
    inside = [s for s in image.segments if s.type == _PT_LOAD and s.address <= begin < s.address + s.file_size]
    if not inside:
        raise ElfError("the .eh_frame is not mapped")
    size = min(inside[0].address + inside[0].file_size - begin, _MAX_FRAMES)
    try:
        return _native.UnwindTable.build([(image.memory.read(image.bias + begin, size), begin, True)])
    except MemoryReadError as error:
        raise ElfError(str(error)) from error
