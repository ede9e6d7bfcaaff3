"""weft dump: prints the stacks of a process or core file as they are now."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from weft.errors import CoreFileError

EPILOG = """\b
Examples:
  weft dump 1234                   what is it doing right now?
  weft dump --locals 1234          and with which values?
  weft dump core.1234              where did it crash?
  weft dump --root /srv/image core files of the machine that the core comes from
  weft dump --json 1234 | jq '.threads[] | select(.holds_gil).frames[0]'
"""

_STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "thread": {"bold": True},
    "native": {"fg": "cyan"},
    "local": {"dim": True},
}


@click.command(epilog=EPILOG)
@click.argument("target", metavar="(PID | CORE)")
@click.option("--locals", "with_locals", is_flag=True, help="Show the local variables of each frame, cut short.")
@click.option(
    "--native/--no-native",
    default=True,
    show_default=True,
    help="Native frames (C, C++, Rust; as root the kernel's) woven with those of Python, or Python's alone.",
)
@click.option("--all-frames", is_flag=True, help="Show the interpreter's own frames (eval loop, call helpers), too.")
@click.option("--json", "as_json", is_flag=True, help="Everything as data; docs/dump.md tells the keys.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Where the files of a core's machine are, by their paths there: /etc/x is DIR/etc/x.",
)
def dump(target: str, root: Path | None, *, with_locals: bool, native: bool, all_frames: bool, as_json: bool) -> None:
    """Print every thread of a running process or a core file, with its stack: most recent call first.

    A running process goes on; a thread that runs is stopped for about 0.1 ms while its stack is read.
    """
    from weft import dump as dumps
    from weft.report.dump import as_dict, render

    if target.isdecimal():
        if root is not None:
            raise click.UsageError("--root is for core files")
        taken = dumps.dump_process(int(target), with_locals=with_locals, native=native)
    elif Path(target).is_file():
        taken = dumps.dump_core(Path(target), root=root, with_locals=with_locals, native=native)
    else:
        raise CoreFileError(f"{target!r} is neither a PID nor a file")
    if as_json:
        click.echo(json.dumps(as_dict(taken), indent=2))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for kind, line in render(taken, width, all_frames=all_frames):
        click.echo(click.style(line, **_STYLES[kind]) if kind in _STYLES else line)
