"""weft demo: records the bundled example program."""

from __future__ import annotations

import sys
from pathlib import Path

import click

import weft.demo
from weft.capture import Capture
from weft.cli.progress import ProgressLine
from weft.export import write
from weft.scratch import scratch_folder
from weft.session import Options, record_command

PROGRAM = Path(weft.demo.__file__).with_name("program.py")
RATE_HZ = 997


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("weft-demo.html"),
    show_default=True,
    metavar="FILE",
    help="Where the flame graph goes.",
)
def demo(output: Path) -> None:
    """Record a bundled example program, print the report and write its flame graph.

    The example calls zlib, sorts with key functions, uses a thread pool and recurses deeply. It takes ten seconds.
    """
    with scratch_folder() as folder:
        click.echo(f"weft: recording {PROGRAM} at {RATE_HZ} Hz", err=True)
        path = folder / "demo.weft"
        with ProgressLine(sys.stderr) as watch:
            record_command([sys.executable, str(PROGRAM)], path, Options(rate_hz=RATE_HZ), watch)
        with Capture(path) as capture:
            write(capture, "text", None)
            write(capture, "html", output)
    click.echo(f"weft: wrote the flame graph to {output}; open it in a browser", err=True)
