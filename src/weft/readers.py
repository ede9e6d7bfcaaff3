"""Readers of debug information run in processes of their own: damaged files make them take any memory and any time."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from weft.target.elf import ElfFile

# The debug information of Debian's python3.15, 24 MB packed, takes 0.1 GB and 1 s; others have a hundred times that.
_MEMORY, _MEMORY_PER_BYTE, _MOST_MEMORY = 1 << 30, 32, 8 << 30
_SECONDS, _BYTES_PER_SECOND, _MOST_SECONDS = 20, 1 << 20, 600  # of a CPU
_ENDS = {
    signal.SIGABRT: "reading it takes too much memory, or fails",
    signal.SIGXCPU: "reading it takes too long",
}


class ReaderError(Exception):
    """A reader failed: why, in words."""


def start_reader(script: Path, files: Sequence[ElfFile]) -> subprocess.Popen[bytes]:
    """Run a script with paths that lead to these very files as its arguments. ReaderError."""
    # -P: the names of the modules beside the script are no names for its imports.
    command = [sys.executable, "-P", str(script), *(file.own_path for file in files)]
    pipe = subprocess.PIPE
    descriptors = [file.fileno() for file in files]
    try:
        reader = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=descriptors)
    except OSError as error:
        raise ReaderError(str(error)) from error
    size = sum(file.size for file in files)
    memory = min(_MEMORY + _MEMORY_PER_BYTE * size, _MOST_MEMORY)
    seconds = min(_SECONDS + size // _BYTES_PER_SECOND, _MOST_SECONDS)
    limits = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_DATA: (memory, memory),
        resource.RLIMIT_CPU: (seconds, seconds + 1),
    }
    with suppress(ProcessLookupError):  # why it has ended is told later
        for limit, values in limits.items():
            resource.prlimit(reader.pid, limit, values)
    return reader


def answer_of(reader: subprocess.Popen[bytes], question: bytes = b"") -> bytes:
    """Return what a reader tells until it ends; `question`: the last it is asked. ReaderError if it failed."""
    answer, errors = reader.communicate(question)
    if reader.returncode == 0:
        return answer
    if reader.returncode > 0:
        raise ReaderError(errors.decode("utf-8", "replace").rstrip().rpartition("\n")[2])
    number = signal.Signals(-reader.returncode)
    raise ReaderError(_ENDS.get(number, f"its reader was ended by {number.name}"))
