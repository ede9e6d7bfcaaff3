"""The test matrix: every CPython that this machine can run, and what is missing from the supported list.

Interpreters come from four places: WEFT_TEST_PYTHONS (paths, separated by colons; the way in for free-threaded or
embedding builds), pyenv's versions, /usr/bin, and the Debian chroots that scripts/setup_tests.py makes in the cache
folder. Starting one in a chroot takes root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("WEFT_CACHE") or REPOSITORY / ".cache")

CHROOT = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin") or "chroot"

SUPPORTED = [(2, 7), *((3, minor) for minor in range(6, 16))]

# sys.abiflags is absent from 2.7; there and up to 3.7 it may hold other letters than the t of a free-threaded build.
_PROBE = """
import os, sys
if "PyPy" in sys.version:
    sys.exit("not CPython")
print("%d.%d.%d" % sys.version_info[:3])
print("t" if "t" in getattr(sys, "abiflags", "") else "")
print(os.path.realpath(sys.executable))
"""


@dataclass(frozen=True, eq=False)
class Interpreter:
    """One CPython that tests can start.

    `command` starts it, by execve only, so that the PID of the command is the PID of the Python process; paths in its
    arguments are seen from inside `chroot`, where there is one. `executable` is the path on the host. `stripped` says
    that the executable has no symbol table (.symtab).
    """

    name: str
    version: tuple[int, int, int]
    command: list[str]
    executable: Path
    chroot: Path | None
    stripped: bool
    free_threaded: bool

    @property
    def minor(self) -> tuple[int, int]:
        """The version that layouts and syntax depend on, such as (3, 13)."""
        return self.version[:2]

    def inside(self, path: Path) -> str:
        """The path as the interpreter sees it; of a file that lies in its chroot, where it has one."""
        return str(path) if self.chroot is None else "/" + str(path.relative_to(self.chroot))


def chroots() -> list[Path]:
    """The Debian trees in the cache folder; unfinished ones have a name that begins with a dot."""
    if not CACHE.is_dir():
        return []
    return sorted(path for path in CACHE.iterdir() if (path / "usr/bin").is_dir() and not path.name.startswith("."))


def _candidates() -> list[tuple[str, Path, Path | None]]:
    """Where an interpreter may be: the first part of its name, its path on the host, its chroot."""
    found: list[tuple[str, Path, Path | None]] = []
    found += [("cpython", Path(path), None) for path in os.environ.get("WEFT_TEST_PYTHONS", "").split(":") if path]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found += [("cpython", path, None) for path in sorted(pyenv.glob("versions/*/bin/python"))]
    found += [("system", path, None) for path in _numbered(Path("/"))]
    if os.geteuid() == 0:
        found += [("debian", path, tree) for tree in chroots() for path in _numbered(tree)]
    return found


def _numbered(root: Path) -> list[Path]:
    return [path for path in sorted((root / "usr/bin").iterdir()) if re.fullmatch(r"python[23]\.\d+", path.name)]


def _probe(kind: str, path: Path, chroot: Path | None) -> Interpreter | None:
    command = [str(path)] if chroot is None else [CHROOT, str(chroot), "/" + str(path.relative_to(chroot))]
    run = subprocess.run([*command, "-c", _PROBE], capture_output=True, text=True, check=False, timeout=60)
    if run.returncode != 0:
        return None
    release, free_threaded, real = run.stdout.splitlines()
    major, minor, micro = map(int, release.split("."))
    executable = Path(real) if chroot is None else chroot / real.lstrip("/")
    return Interpreter(
        name=f"{kind}-{release}{free_threaded}",
        version=(major, minor, micro),
        command=command,
        executable=executable,
        chroot=chroot,
        stripped=_is_stripped(executable),
        free_threaded=bool(free_threaded),
    )


def _is_stripped(executable: Path) -> bool:
    from elftools.elf.elffile import ELFFile

    with executable.open("rb") as file:
        return ELFFile(file).get_section_by_name(".symtab") is None


@cache
def all_interpreters() -> list[Interpreter]:
    """Every interpreter of a supported version that starts, oldest first; each executable once, each name once."""
    found: dict[Path, Interpreter] = {}
    for kind, path, chroot in _candidates():
        interpreter = _probe(kind, path, chroot)
        if interpreter is not None and interpreter.minor in SUPPORTED:
            found.setdefault(interpreter.executable, interpreter)
    by_name: dict[str, Interpreter] = {}
    for interpreter in found.values():
        by_name.setdefault(interpreter.name, interpreter)
    return sorted(by_name.values(), key=lambda interpreter: (interpreter.version, interpreter.name))


def missing() -> list[tuple[int, int]]:
    """The supported versions that no interpreter on this machine has."""
    present = {interpreter.minor for interpreter in all_interpreters()}
    return [minor for minor in SUPPORTED if minor not in present]


def without_names(binary: bytes, *names: bytes) -> bytes:
    """The binary with these symbols renamed, in all string tables. The new names have the same GNU hash, so that the
    dynamic linker still finds them for the binary itself."""
    for name in names:
        renamed = name[:-2] + bytes([name[-2] + 1, name[-1] - 33])
        binary = binary.replace(b"\0" + name + b"\0", b"\0" + renamed + b"\0")
    return binary
