"""Libraries of lines.c, whose every call stands on a line that says what it is; with debug information where it is
wanted.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from interpreters import Interpreter, all_interpreters
from weft_command import run_weft
from zig import compile_with_zig

from weft import Capture
from weft.errors import CaptureError

SOURCE = Path(__file__).resolve().parent.parent / "targets" / "lines.c"
PLACES = ("inlined_twice", "inlined", "outlined", "jumped_to", "entry")  # innermost first


def line_of(function: str, source: Path = SOURCE) -> int:
    """The line that says that it is the call in this function."""
    lines = source.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if re.search(rf"/\* at {function}(:.*)? \*/", line))


ALL_LINES = [(function, "lines.c", line_of(function)) for function in PLACES]


def compile_library(folder: Path, *options: str, source: Path = SOURCE) -> Path:
    """A shared library of lines.c, or of what includes it."""
    return compile_with_zig(folder / "liblines.so", "-O2", "-shared", "-fPIC", *options, source)


def separate(library: Path, folder: Path) -> Path:
    """Strip a library of all but its exported symbols; its debug information goes into a file in `folder`."""
    debug = folder / "liblines.debug"
    subprocess.run(["objcopy", "--only-keep-debug", library, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", library], check=True)
    return debug


def share(folder: Path) -> tuple[Path, Path]:
    """A library of what lines.c has, and more, and the file into which dwz has moved names of it and of another one."""
    functions = [f"int pad_{number}(struct s{number} *x) {{ return x->member; }}" for number in range(300)]
    structs = [f"struct s{number} {{ int member; }};" for number in range(300)]
    libraries = []
    for source in (folder / "one.c", folder / "two.c"):
        source.write_text("\n".join([SOURCE.read_text(), *structs, *functions]))
        libraries.append(source.with_suffix(".so"))
        gcc = ["gcc", "-O2", "-g", "-Wl,--build-id=sha1", "-shared", "-fPIC"]
        subprocess.run([*gcc, "-o", libraries[-1], source], check=True)
    shared = folder / "shared"
    subprocess.run(["dwz", "-m", shared, *libraries], check=True)
    return libraries[0].rename(folder / "liblines.so"), shared


def newest() -> Interpreter:
    """One interpreter; which one does not matter here."""
    return next(each for each in reversed(all_interpreters()) if each.chroot is None)


def own_frames(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The frames of the library in a dump."""
    (thread,) = told["threads"]
    return (frame for frame in thread["frames"] if frame.get("module", "").endswith("/liblines.so"))


def lines_of(pid: int, **options: Any) -> list[tuple[str, str, int]]:
    """Function, file and line of the library's frames, as `weft dump` tells them."""
    run = run_weft("dump", "--json", pid, **options)
    assert run.returncode == 0, run.stderr
    return [
        (frame["function"], Path(frame["file"]).name, frame["line"]) for frame in own_frames(json.loads(run.stdout))
    ]


def frames_of(capture: Path, library: Path) -> list[tuple[str, str, int]]:
    """Function, file and line of a library's frames in a capture, which may still grow; none where it has not begun.

    While it grows these are addresses: of three functions, into one of which others are inlined.
    """
    with suppress(CaptureError), Capture(capture) as read:
        frames = [frame for _, functions in read.frames() for frame in functions if frame.module == str(library)]
        return [(frame.function, Path(frame.file).name, frame.line) for frame in frames]
    return []
