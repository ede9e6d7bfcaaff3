"""What the search for a runtime needs of a target: a live process has it, and so has a core file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from weft.target.elf import ElfFile
from weft.target.image import Image
from weft.target.maps import Mapping
from weft.target.memory import Memory


class Target(Protocol):
    """A process, live or dead. Its str() says which one, as errors do: "process 12 (python)"."""

    @property
    def pid(self) -> int:
        """Its PID, or what it was."""
        ...

    @property
    def memory(self) -> Memory:
        """Its memory."""
        ...

    @property
    def executable(self) -> str | None:
        """The path of its program, as it calls it; None if that is not known."""
        ...

    @property
    def program(self) -> Sequence[bytes]:
        """What tells the program that it runs from the one after an exec. TargetError: it has ended."""
        ...

    def maps(self) -> list[Mapping]:
        """Return its mappings, in order of address."""
        ...

    def namespace_ids(self) -> dict[int, int]:
        """Return the id of each thread -> the same in its own PID namespace."""
        ...

    def open_module(self, image: Image) -> ElfFile | None:
        """Open the very file that an image was mapped from; None if it cannot be had."""
        ...

    def paths(self, path: str) -> tuple[str, ...]:
        """Return our paths of a file that the target calls `path` (absolute), the likeliest first."""
        ...
