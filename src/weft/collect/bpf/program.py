"""A BPF object made into a program that the kernel takes: linked, its maps filled in, its types told.

The kernel itself relocates what depends on its own structs (CO-RE, bpf_core_apply; Linux 5.17).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.collect.bpf import btf, kernel
from weft.target.elf import SYMBOL, ElfFile

_CALL, _LOAD_WIDE = 0x85, 0x18  # opcodes; the second takes two instructions
_STT_FUNC = 2
_RELOCATION = struct.Struct("<QQ")  # offset, symbol << 32 | type
_INSTRUCTION = struct.Struct("<BBhi")  # opcode, registers (source << 4 | destination), offset, immediate
# What the source register of those two says that the immediate is (include/uapi/linux/bpf.h).
_PSEUDO_CALL, _PSEUDO_MAP, _PSEUDO_FUNCTION = 1, 1, 4
_TEXT = ".text"


@dataclass(slots=True)
class _Function:
    section: str
    begin: int  # bytes, in its section
    code: bytearray
    at: int = 0  # bytes, in the program
    # Its instructions that refer to other functions: offset, and the one that is meant.
    references: list[tuple[int, _Function]] = field(default_factory=list)


class Object:
    """A BPF object file, as clang writes it. Static functions lie in .text, each program in a section of its own."""

    def __init__(self, data: bytes) -> None:
        with ElfFile.of_bytes("weft.bpf.o", data) as file:
            names = [section.name for section in file.sections]
            self._sections = {section.name: file.contents(section.name) or b"" for section in file.sections}
        self._symbols: list[tuple[str, str, int]] = []  # name, section, value
        self._functions: dict[tuple[str, int], int] = {}  # section, offset -> size
        strings = self._sections[".strtab"]
        for at, info, _, index, value, size in SYMBOL.iter_unpack(self._sections[".symtab"]):
            place = names[index] if index < len(names) else ""
            self._symbols.append((strings[at : strings.index(b"\0", at)].decode(), place, value))
            if info & 15 == _STT_FUNC:
                self._functions[place, value] = size
        # Section -> offset -> number of a symbol.
        self._relocations = {
            name.removeprefix(".rel"): {offset: info >> 32 for offset, info in _RELOCATION.iter_unpack(content)}
            for name, content in self._sections.items()
            if name.startswith(".rel")
        }
        sizes = {name: len(data) for name, data in self._sections.items()}
        offsets = {name: value for name, _, value in self._symbols}
        self._btf = btf.with_sections(self._sections[".BTF"], sizes, offsets)
        self._told = btf.extensions(self._sections[".BTF"], self._sections[".BTF.ext"])

    def size_of(self, struct_name: str) -> int:
        """Return the size of one of its structs, in bytes. KeyError."""
        return btf.size_of(self._btf, struct_name)

    def load(
        self,
        kind: kernel.ProgramKind,
        section: str,
        values: Mapping[str, kernel.Map | int],
    ) -> kernel.File:
        """Load the program of a section, with the maps and numbers (below 2**31) that it names. CollectorError."""
        functions = self._link(section, values)
        infos = [self._info(number, functions) for number in range(3)]
        sizes = [records.size for records in self._told]
        types = kernel.load_btf(self._btf)
        code = b"".join(function.code for function in functions)
        return kernel.load_program(kind, code, types, infos, sizes)

    def _link(self, section: str, values: Mapping[str, kernel.Map | int]) -> list[_Function]:
        """The program's own function, then those that it comes to; the kernel wants no others."""
        found: dict[tuple[str, int], _Function] = {}

        def function_at(name: str, begin: int) -> _Function:
            if (name, begin) not in found:
                end = begin + self._functions[name, begin]
                found[name, begin] = _Function(name, begin, bytearray(self._sections[name][begin:end]))
            return found[name, begin]

        done = 0
        function_at(section, 0)
        while done < len(found):
            function = list(found.values())[done]
            for offset, begin in self._references(function, values):
                function.references.append((offset, function_at(_TEXT, begin)))
            done += 1
        at = 0
        for function in found.values():
            function.at = at
            at += len(function.code)
        for function in found.values():
            for offset, referred in function.references:
                _refer(function, offset, referred)
        return list(found.values())

    def _references(self, function: _Function, values: Mapping[str, kernel.Map | int]) -> list[tuple[int, int]]:
        """Fill in values; return where functions of .text are referred to, and where they begin."""
        references = []
        relocations = self._relocations.get(function.section, {})
        at = 0
        while at < len(function.code):
            opcode, registers, offset, immediate = _INSTRUCTION.unpack_from(function.code, at)
            symbol = relocations.get(function.begin + at)
            if symbol is not None:
                name, section, place = self._symbols[symbol]
                if opcode == _CALL:
                    # Of a symbol of the section, the immediate is the target's number, less one.
                    references.append((at, place if name and name != section else (immediate + 1) * 8))
                elif section == _TEXT:
                    references.append((at, place + immediate))
                else:
                    value = values[name]
                    kind, number = (_PSEUDO_MAP, value.descriptor) if isinstance(value, kernel.Map) else (0, value)
                    _INSTRUCTION.pack_into(function.code, at, opcode, registers & 15 | kind << 4, offset, number)
            elif opcode == _CALL and registers >> 4 == _PSEUDO_CALL:
                references.append((at, function.begin + at + 8 + immediate * 8))
            at += 16 if opcode == _LOAD_WIDE else 8
        return references

    def _info(self, kind: int, functions: list[_Function]) -> bytes:
        """Records of .BTF.ext for the linked program: offsets in instructions, but for relocations in bytes."""
        unit = 1 if kind == 2 else 8
        return b"".join(
            struct.pack("<I", (function.at + offset) // unit) + rest
            for function in functions
            for offset, rest in self._told[kind].within(
                function.section, function.begin, function.begin + len(function.code)
            )
        )


def _refer(function: _Function, at: int, target: _Function) -> None:
    opcode, registers, offset, _ = _INSTRUCTION.unpack_from(function.code, at)
    kind = _PSEUDO_FUNCTION if opcode == _LOAD_WIDE else _PSEUDO_CALL
    distance = (target.at - (function.at + at)) // 8 - 1
    _INSTRUCTION.pack_into(function.code, at, opcode, registers & 15 | kind << 4, offset, distance)
