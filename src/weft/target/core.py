"""A core file: the memory, threads and files of a process that has ended, or of one that gcore looked at.

The form is the ELF core of Linux (fs/binfmt_elf.c: elf_core_dump, fill_note_info; elfcore.h of x86). What the core
leaves out, mostly the text of libraries, is read from the files that were mapped (note NT_FILE), if they are the same.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft import _native
from weft.errors import CoreFileError, MemoryReadError
from weft.target.elf import ElfError, ElfFile
from weft.target.image import Image
from weft.target.maps import Mapping, Module, modules
from weft.target.memory import read_u32
from weft.target.namespaces import is_same

_ET_CORE, _EM_X86_64 = 4, 62
_PT_LOAD, _PT_NOTE = 1, 4
_PF_X, _PF_W, _PF_R = 1, 2, 4
_PN_XNUM = 0xFFFF  # the number of program headers stands in the first section header
_NT_PRSTATUS, _NT_PRPSINFO, _NT_AUXV, _NT_FILE = 1, 3, 6, 0x46494C45
_AT_PHDR, _AT_SYSINFO_EHDR = 3, 33
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")  # type, flags, offset, vaddr, paddr, filesz, memsz, align
_MAX_HEADERS = 1 << 20
_MAX_NOTES = 1 << 30  # bytes; about 3 KB a thread
_PAGE = 4096

# struct elf_prstatus: where the signal, the thread's id and its registers are (user_regs_struct, by words).
_PRSTATUS_SIGNAL, _PRSTATUS_PID, _PRSTATUS_REGISTERS = 12, 32, 112
_RDI, _RAX, _ORIG_RAX, _FS_BASE = 14, 10, 15, 21
# Of each of DWARF's numbers, rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, and the pc.
_BY_DWARF = (10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16)
# struct elf_prpsinfo
_PRPSINFO_PID, _PRPSINFO_NAME, _PRPSINFO_ARGUMENTS = 24, 40, 56

# What a system call returns while it waits to be restarted or to fail: EINTR; ERESTARTSYS and its kin (linux/errno.h).
_INTERRUPTED = {-4, *range(-516, -511)}

# How a file that is packed begins, and what unpacks it: systemd-coredump stores cores so.
_PACKED = {
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"\x04\x22\x4d\x18": "unlz4",
    b"\xfd7zX": "unxz",
    b"\x1f\x8b\x08\x00": "gunzip",
}

_PTHREAD_TID = 0x2D0  # in glibc's struct pthread, x86-64 (check.py names the source)


@dataclass(frozen=True, slots=True)
class CoreThread:
    """A thread as its NT_PRSTATUS tells it; `syscall` is the number of the call that it was blocked in, or None."""

    tid: int
    pthread: int  # fs base: pthread_self
    syscall: int | None
    first_argument: int
    registers: _native.RegisterSet


@dataclass(frozen=True, slots=True)
class _Load:
    address: int
    file_size: int
    size: int
    flags: int
    offset: int


@dataclass(frozen=True, slots=True)
class _MappedFile:
    start: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A mapped file that the core needs and that cannot be had: why, in words."""

    path: str
    reason: str


class Core:
    """A core file. CoreFileError from the constructor if it is none, or not one that weft reads.

    `root`: a folder that holds the files of the machine (or container) where the process ran, by their paths there.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.path = path
        self.threads: list[CoreThread] = []
        self.pid = 0
        self.name = ""
        self.arguments = ""
        self.signal = 0  # that ended the process; 0: none
        self.executable: str | None = None
        self.missing: list[MissingFile] = []
        self._root = root
        self._files: list[_MappedFile] = []
        self._phdr = 0
        self._vdso = 0
        self._whole_size = 0  # that the file has to have
        try:
            with path.open("rb") as file:
                self._size = os.fstat(file.fileno()).st_size
                self._loads = self._read(file.fileno())
        except OSError as error:
            raise CoreFileError(f"cannot read {path}: {error.strerror}") from error
        if not self.threads:
            raise CoreFileError(f"{path} tells of no thread: {self._truncation() or 'it is damaged'}")
        self.executable = next((f.path for f in self._files if f.start <= self._phdr < f.end), None)
        self._mappings = self._join_mappings()
        self._memory = _native.ImageMemory()
        self._fill_memory()

    def __str__(self) -> str:
        return f"core file {self.path} ({self.name})"

    @property
    def memory(self) -> _native.ImageMemory:
        """Its memory, with the files that it leaves out."""
        return self._memory

    @property
    def missing_bytes(self) -> int:
        """How many bytes of the file have been cut off; 0: it is whole."""
        return max(0, self._whole_size - self._size)

    @property
    def program(self) -> Sequence[bytes]:
        """Nothing: it becomes no other program."""
        return ()

    def maps(self) -> list[Mapping]:
        """Return its mappings, in order of address."""
        return self._mappings

    def namespace_ids(self) -> dict[int, int]:
        """Return the id of each thread -> as the process counted it: gcore tells the ids of the one who looked."""
        return {thread.tid: self._inner_tid(thread) for thread in self.threads}

    def open_module(self, image: Image) -> ElfFile | None:
        """Open the very file that an image was mapped from; None if it cannot be had."""
        return self._find_file(image)[0]

    def paths(self, path: str) -> tuple[str, ...]:
        """Return our paths of a file that the process called `path` (absolute), the likeliest first."""
        return (path,) if self._root is None else (f"{self._root}{path}", path)

    def problems(self) -> list[str]:
        """Return what the core lacks, a line each."""
        lines = [f"needs {file.path}: {file.reason}" for file in self.missing]
        return [self._truncation(), *lines] if self.missing_bytes else lines

    def _truncation(self) -> str:
        missing = self.missing_bytes
        return (
            f"the core file is truncated: {missing:,} of {missing + self._size:,} bytes are missing" if missing else ""
        )

    # Reading the file

    def _read(self, fd: int) -> list[_Load]:
        header = self._bytes(fd, 0, 64)
        self._check(header)
        table, sections = struct.unpack_from("<QQ", header, 32)
        section_size, section_count = struct.unpack_from("<HH", header, 58)
        self._whole_size = min(sections, 1 << 62) + section_size * section_count
        count = int.from_bytes(header[56:58], "little")
        if count == _PN_XNUM:
            count = min(int.from_bytes(self._bytes(fd, sections + 44, 4), "little"), _MAX_HEADERS)
        loads: list[_Load] = []
        headers = self._bytes(fd, table, count * _PROGRAM_HEADER.size)
        notes: list[tuple[int, int]] = []
        for kind, flags, offset, address, _, file_size, size, _ in _PROGRAM_HEADER.iter_unpack(headers):
            self._whole_size = max(self._whole_size, offset + file_size)
            if kind == _PT_LOAD:
                loads.append(_Load(address, min(file_size, size), size, flags, offset))
            elif kind == _PT_NOTE and offset < 1 << 62:
                notes.append((offset, min(file_size, _MAX_NOTES)))
        for offset, size in notes:
            self._read_notes(os.pread(fd, size, offset))
        return sorted(loads, key=lambda load: load.address)

    def _check(self, header: bytes) -> None:
        if unpack := _PACKED.get(header[:4]):
            raise CoreFileError(f"{self.path} is packed; unpack it first ({unpack})")
        if header[:4] != b"\x7fELF" or int.from_bytes(header[16:18], "little") != _ET_CORE:
            raise CoreFileError(f"{self.path} is no core file")
        if header[4:6] != b"\x02\x01" or int.from_bytes(header[18:20], "little") != _EM_X86_64:
            raise CoreFileError(f"{self.path} is the core file of another architecture; weft reads those of x86-64")

    def _bytes(self, fd: int, offset: int, size: int) -> bytes:
        data = os.pread(fd, size, offset) if offset < 1 << 62 else b""
        if len(data) != size:
            what = "is no core file" if offset == 0 else "is truncated within its headers; nothing can be read"
            raise CoreFileError(f"{self.path} {what}")
        return data

    def _read_notes(self, notes: bytes) -> None:
        at = 0
        while at + 12 <= len(notes):
            name_size, size, kind = struct.unpack_from("<III", notes, at)
            start = at + 12 + (name_size + 3 & ~3)
            data = notes[start : start + size]
            if notes[at + 12 : at + 16] == b"CORE" and len(data) == size:
                self._read_note(kind, data)
            at = start + (size + 3 & ~3)

    def _read_note(self, kind: int, data: bytes) -> None:
        if kind == _NT_PRSTATUS and len(data) >= _PRSTATUS_REGISTERS + 8 * (_FS_BASE + 1):
            words = struct.unpack_from(f"<{_FS_BASE + 1}Q", data, _PRSTATUS_REGISTERS)
            number, returned = _signed(words[_ORIG_RAX]), _signed(words[_RAX])
            blocked = number >= 0 and returned in _INTERRUPTED
            self.signal = self.signal or int.from_bytes(data[_PRSTATUS_SIGNAL : _PRSTATUS_SIGNAL + 2], "little")
            self.threads.append(
                CoreThread(
                    struct.unpack_from("<i", data, _PRSTATUS_PID)[0],
                    words[_FS_BASE],
                    number if blocked else None,
                    words[_RDI] if blocked else 0,
                    _registers(words),
                )
            )
        elif kind == _NT_PRPSINFO and len(data) >= _PRPSINFO_ARGUMENTS + 80:
            self.pid = struct.unpack_from("<i", data, _PRPSINFO_PID)[0]
            self.name = _text(data[_PRPSINFO_NAME : _PRPSINFO_NAME + 16])
            self.arguments = _text(data[_PRPSINFO_ARGUMENTS : _PRPSINFO_ARGUMENTS + 80])
        elif kind == _NT_AUXV:
            pairs = dict(struct.iter_unpack("<QQ", data[: len(data) & ~15]))
            self._phdr = pairs.get(_AT_PHDR, 0)
            self._vdso = pairs.get(_AT_SYSINFO_EHDR, 0)
        elif kind == _NT_FILE and len(data) >= 16:
            self._files = _mapped_files(data)

    # The memory

    def _join_mappings(self) -> list[Mapping]:
        """Put together what the program headers and NT_FILE tell. gdb leaves mappings out that it does not write."""
        found = [self._mapping(load.address, load.address + load.size, load.flags) for load in self._loads if load.size]
        starts = sorted((m.start, m.end) for m in found)
        for file in self._files:
            at = file.start
            for start, end in [*(s for s in starts if s[0] < file.end and s[1] > file.start), (file.end, file.end)]:
                if at < start:
                    found.append(self._mapping(at, start, _PF_R | _PF_X))
                at = max(at, end)
        return sorted(found, key=lambda mapping: mapping.start)

    def _mapping(self, start: int, end: int, flags: int) -> Mapping:
        perms = "".join(letter if flags & bit else "-" for letter, bit in (("r", _PF_R), ("w", _PF_W), ("x", _PF_X)))
        file = next((f for f in self._files if f.start <= start < f.end), None)
        if file is None:
            return Mapping(start, end, perms + "p", 0, "", 0, "[vdso]" if start == self._vdso else "")
        path = file.path.removesuffix(" (deleted)")
        # Any number but 0 says that it is a file (maps.py).
        return Mapping(start, end, perms + "p", file.offset + start - file.start, "", 1, path, path != file.path)

    def _fill_memory(self) -> None:
        for load in self._loads:
            if load.file_size:
                self._memory.add_file(load.address, load.file_size, str(self.path), load.offset)
        for module in modules(self._mappings):
            if not self._is_whole(module):
                self._fill_module(module)

    def _is_whole(self, module: Module) -> bool:
        dumped = {load.address: load.file_size for load in self._loads}
        return all(dumped.get(mapping.start, 0) >= mapping.end - mapping.start for mapping in module.mappings)

    def _fill_module(self, module: Module) -> None:
        try:
            image = Image(self._memory, module)
        except ElfError:
            return  # a font, a database: nothing that a stack needs
        except MemoryReadError:
            if ".so" in module.path or module.path == self.executable:
                self.missing.append(MissingFile(module.path, "the core file does not tell which build of it"))
            return
        file, reason = self._find_file(image)
        if file is None:
            self.missing.append(MissingFile(module.path, reason))
            return
        with file:
            size = Path(file.path).stat().st_size
            for mapping in module.mappings:
                there = max(0, min(mapping.end - mapping.start, size - mapping.offset))
                if there:
                    self._memory.add_file(mapping.start, there, file.path, mapping.offset)
                # The rest of the last page of a file reads as zeros (mmap(2)).
                rest = -there % _PAGE
                if there and rest and there + rest <= mapping.end - mapping.start:
                    self._memory.add_zeros(mapping.start + there, rest)

    def _find_file(self, image: Image) -> tuple[ElfFile | None, str]:
        """Return the file that an image was mapped from, or why there is none."""
        paths = self.paths(image.module.path)
        reason = f"not found ({', '.join(paths)}); --root DIR tells where the files of its machine are"
        for path in paths:
            try:
                file = ElfFile(path)
            except (OSError, ElfError):
                continue
            if is_same(file, image):
                return file, ""
            file.close()
            reason = f"{path} is another build; --root DIR tells where the files of its machine are"
        return None, reason

    def _inner_tid(self, thread: CoreThread) -> int:
        try:
            return read_u32(self._memory, thread.pthread + _PTHREAD_TID) or thread.tid
        except MemoryReadError:
            return thread.tid


def _registers(words: tuple[int, ...]) -> _native.RegisterSet:
    registers = _native.RegisterSet()
    for number, word in enumerate(_BY_DWARF):
        registers[number] = words[word]
    return registers


def _mapped_files(note: bytes) -> list[_MappedFile]:
    """Parse NT_FILE: count, page size, (start, end, offset in pages) each, then the names (fill_files_note)."""
    count, page = struct.unpack_from("<QQ", note)
    count = min(count, (len(note) - 16) // 24)
    names = note[16 + 24 * count :].split(b"\0")
    return [
        _MappedFile(start, end, offset * page, name.decode("utf-8", "surrogateescape"))
        for (start, end, offset), name in zip(
            struct.iter_unpack("<QQQ", note[16 : 16 + 24 * count]), names, strict=False
        )
    ]


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape").strip()


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
