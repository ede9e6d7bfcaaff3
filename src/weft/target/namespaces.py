"""A target in another mount, PID or user namespace: its files by our paths, its ids in our numbers."""

from __future__ import annotations

import os
from pathlib import Path

from weft.errors import MemoryReadError
from weft.target.elf import ElfError, ElfFile
from weft.target.image import Image


def target_paths(pid: int, path: str) -> tuple[str, str]:
    """Return our paths of a file that /proc/PID/maps, or the target itself, calls `path` (absolute).

    The first is right for a target in another mount namespace. maps tells paths from the root of whoever reads it, so
    for a target that is only chrooted, they are ours already: the second.
    """
    return f"/proc/{pid}/root{path}", path


def open_module(pid: int, image: Image) -> ElfFile | None:
    """Open the file that an image was mapped from; None if it cannot be had.

    The file of that path today may be another one (an upgrade, another root), so it is accepted only if its first bytes
    and build-id are those that are mapped. Without a build-id, by which alone builds of the same code on other lines
    are told apart, it must have the mapped file's inode, too. Next come the kernel's own links to the mapped file,
    which also lead to deleted ones: map_files (needs CAP_CHECKPOINT_RESTORE) and, for the program itself, exe.
    """
    first = image.module.mappings[0]
    links = (f"/proc/{pid}/map_files/{first.start:x}-{first.end:x}", f"/proc/{pid}/exe")
    for way in target_paths(pid, image.module.path) + links:
        try:
            file = ElfFile(way)
        except (OSError, ElfError):
            continue
        if is_same(file, image) and (image.build_id is not None or os.fstat(file.fileno()).st_ino == first.inode):
            return file
        file.close()
    return None


def is_same(file: ElfFile, image: Image) -> bool:
    """Whether an image was mapped from this file: its first bytes and its build-id agree."""
    first = image.module.mappings[0]
    size = min(first.end - first.start, 1024)
    try:
        return file.read(0, size) == image.memory.read(first.start, size) and file.build_id == image.build_id
    except (ElfError, MemoryReadError):
        return False


def namespace_ids(pid: int) -> dict[int, int]:
    """Return each thread's id as we see it -> as the target's own PID namespace counts it. OSError: it has gone.

    The last number of NSpid (proc(5)) is the one of the innermost namespace that the task lives in; that is what
    gettid() gave CPython.
    """
    return {int(task.name): namespace_id(pid, int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()}


def namespace_id(pid: int, tid: int) -> int:
    """Return one thread's id in its own PID namespace; `tid` itself where it has gone or has no other."""
    try:
        status = Path(f"/proc/{pid}/task/{tid}/status").read_bytes()
    except OSError:
        return tid
    line = next((line for line in status.split(b"\n") if line.startswith(b"NSpid:")), b"")
    numbers = line.split()[1:]
    return int(numbers[-1]) if numbers else tid


def is_other_namespace(pid: int, kind: str) -> bool | None:
    """Whether the target is in another namespace than we (kind: mnt, pid, user, net); None if the kernel won't tell."""
    try:
        return Path(f"/proc/{pid}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()
    except OSError:
        return None
