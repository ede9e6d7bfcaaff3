"""Unwind tables of the modules of a process: from their files, or from what is mapped of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft import _native
from weft.errors import MemoryReadError
from weft.target.elf import ElfError, ElfFile, Image
from weft.target.maps import Mapping, Module, modules
from weft.target.namespaces import open_module

if TYPE_CHECKING:
    from weft.target.process import Process

_PT_LOAD, _PT_GNU_EH_FRAME = 1, 0x6474E550
_PCREL_SDATA4 = 0x1B
_MAX_FRAMES = 256 << 20  # bytes of .eh_frame; libtorch has 20 MB
_VDSO = "[vdso]"


def table_of_file(file: ElfFile) -> _native.UnwindTable:
    """Compile a file's .eh_frame, and .debug_frame for what that leaves out. ElfError."""
    sections = []
    for name, is_eh in ((".eh_frame", True), (".debug_frame", False)):
        if section := file.section(name):
            sections.append((file.read(section.offset, section.size), section.address, is_eh))
    return _native.UnwindTable.build(sections)


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
    return _native.UnwindTable.build([(image.memory.read(image.bias + begin, size), begin, True)])


class Code:
    """The code of a live process: where its modules lie, and how their functions are unwound."""

    def __init__(self, process: Process) -> None:
        """Read what is mapped now. PermissionDeniedError, TargetExitedError."""
        self.map = _native.CodeMap()
        self.missing: list[str] = []  # modules without a table, and why
        mappings = process.maps()
        vdso = [Module((m,)) for m in mappings if m.path == _VDSO]
        for module in modules(mappings) + vdso:
            code = [m for m in module.mappings if m.perms[2:3] == "x"]
            if code:
                self._add(process, module, code)

    def _add(self, process: Process, module: Module, code: list[Mapping]) -> None:
        try:
            image = Image(process.memory, module)
            file = None if module.path == _VDSO else open_module(process.pid, image)
            if file is None:
                table = table_of_image(image)
            else:
                with file:
                    table = table_of_file(file)
        except (ElfError, MemoryReadError) as error:
            self.missing.append(f"{module.path}: {error}")
            return
        for mapping in code:
            self.map.add(mapping.start, mapping.end, image.bias, table)
