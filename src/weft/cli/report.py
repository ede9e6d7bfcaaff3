"""weft report: shows a capture, or writes it in another format."""

from __future__ import annotations

import json
from pathlib import Path

import click

from weft.capture import Capture
from weft.cli.options import all_frames_option, idle_option
from weft.errors import OutputError
from weft.export import FORMATS, format_of, write, write_file
from weft.imports import open_recording
from weft.profile.tables import View

EPILOG = """\b
Examples:
  weft report app.weft                    where the time went, on the terminal
  weft report app.weft -o app.html        an interactive flame graph
  weft report app.weft -f collapsed | flamegraph.pl > app.svg
  weft report app.weft --json | jq '.functions[0]'
"""


@click.command(epilog=EPILOG)
@click.argument("capture", type=click.Path(path_type=Path))
@click.option(
    "-f",
    "--format",
    "name",
    type=click.Choice(FORMATS),
    help="What to write. By default the ending of FILE tells it; on the terminal it is text.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to; stdout by default.")
@idle_option
@all_frames_option
@click.option("--json", "as_json", is_flag=True, help="The report as data: functions, lines, threads, account.")
def report(
    capture: Path, name: str | None, output: Path | None, *, idle: bool, all_frames: bool, as_json: bool
) -> None:
    """Show where the time went in CAPTURE, or write it in a format for other tools.

    CAPTURE may be another tool's profile: collapsed stacks, speedscope's or pprof's format.
    """
    if as_json and name is not None:
        raise click.UsageError("--json and -f exclude each other")
    view = View(idle=idle, all_frames=all_frames)
    with open_recording(capture) as opened:
        if as_json:
            _write_json(opened, output, view)
            return
        if name is None:
            name = "text" if output is None else format_of(output)
        if name is None:
            raise OutputError(f"cannot write {output}: only recording makes .weft files; give it another ending")
        write(opened, name, output, view)


def _write_json(capture: Capture, output: Path | None, view: View) -> None:
    from weft.report.data import as_dict

    document = json.dumps(as_dict(capture, view), indent=2) + "\n"
    if output is None:
        click.echo(document, nl=False)
    else:
        write_file(output, [document.encode()])
