"""The mappings of a process: /proc/PID/maps, as types."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

_DELETED = " (deleted)"
_MOST_BYTES = 64 << 20  # Linux's 65,530 mappings with paths of 1,000 bytes; what is behind is left out


class Mapping(NamedTuple):
    """One line of /proc/PID/maps: addresses [start, end) in bytes; `path` is "" for anonymous memory."""

    start: int
    end: int
    perms: str
    offset: int
    dev: str
    inode: int
    path: str
    deleted: bool = False

    @property
    def readable(self) -> bool:
        """Whether the process itself may read it."""
        return self.perms.startswith("r")

    @property
    def writable(self) -> bool:
        """Whether the process itself may write it."""
        return self.perms[1:2] == "w"

    @property
    def is_file(self) -> bool:
        """Whether a file (also a deleted one, or a memfd) is mapped."""
        return self.inode != 0 and self.path.startswith("/")


class Module(NamedTuple):
    """The mappings of one file, in order of address. One file loaded twice is two modules."""

    mappings: tuple[Mapping, ...]

    @property
    def path(self) -> str:
        """Where the file is, or was, in the target's mount namespace."""
        return self.mappings[0].path

    @property
    def start(self) -> int:
        """The lowest address."""
        return self.mappings[0].start

    @property
    def deleted(self) -> bool:
        """Whether the kernel says that the file has gone."""
        return self.mappings[0].deleted


def parse_maps(text: str) -> list[Mapping]:
    """Parse the text of /proc/PID/maps. Lines that are not of its form are left out.

    The kernel writes a newline in a path as \\012 and nothing else escaped (fs/proc/task_mmu.c, show_vma_header_prefix
    and seq_file_path), so a path may hold spaces; it ends in " (deleted)" once the file has no name.
    """
    mappings = []
    for line in text.split("\n"):
        fields = line.split(None, 5)
        if len(fields) < 5:
            continue
        start, _, end = fields[0].partition("-")
        # split() drops the padding before the path; its own spaces stay.
        path = fields[5].replace("\\012", "\n") if len(fields) == 6 else ""
        deleted = path.startswith("/") and path.endswith(_DELETED)
        try:
            mappings.append(
                Mapping(
                    int(start, 16),
                    int(end, 16),
                    fields[1],
                    int(fields[2], 16),
                    fields[3],
                    int(fields[4]),
                    path.removesuffix(_DELETED) if deleted else path,
                    deleted,
                )
            )
        except ValueError:
            continue
    return mappings


def read_maps(pid: int) -> list[Mapping]:
    """Return the mappings of a process. OSError where the kernel refuses or the process has gone."""
    text = read_maps_text(pid)
    if len(text) == _MOST_BYTES:
        text = text[: text.rfind(b"\n") + 1]
    return list(_parsed(text.decode("utf-8", "surrogateescape")))


def read_maps_text(pid: int) -> bytes:
    """Return /proc/PID/maps, as far as it is read. OSError where the kernel refuses or the process has gone."""
    with Path(f"/proc/{pid}/maps").open("rb") as file:
        return file.read(_MOST_BYTES)


@lru_cache(maxsize=1)  # a recording looks at the same ones again and again
def _parsed(text: str) -> tuple[Mapping, ...]:
    return tuple(parse_maps(text))


def modules(mappings: list[Mapping]) -> list[Module]:
    """Group the file mappings by file. A new module begins where offset 0 is mapped again."""
    found: list[Module] = []
    files = [m for m in mappings if m.is_file]
    for _, group in groupby(files, key=lambda m: (m.dev, m.inode, m.path)):
        part: list[Mapping] = []
        for mapping in group:
            if part and mapping.offset == 0 and part[-1].offset != 0:
                found.append(Module(tuple(part)))
                part = []
            part.append(mapping)
        found.append(Module(tuple(part)))
    return found
