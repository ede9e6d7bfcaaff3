"""weft diff: compares two recordings of a program, or two sets of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from weft.cli.options import all_frames_option, idle_option
from weft.compare import compare_recordings
from weft.export import write_file
from weft.profile.difference import Normalise
from weft.profile.names import escape
from weft.profile.tables import View
from weft.report.diff.content import Comparison, signed

FORMATS = ("text", "html", "markdown", "collapsed")
ENDINGS = {".txt": "text", ".html": "html", ".md": "markdown", ".folded": "collapsed"}
FAILED = 3  # the exit status where something takes more than --fail-above allows

EPILOG = """\b
Examples:
  weft diff old.weft new.weft                       what got slower, and what faster
  weft diff old.weft new.weft -o diff.html          a red and blue flame graph
  weft diff old.weft new.weft -f collapsed | flamegraph.pl > diff.svg
  weft diff --normalise none --fail-above 5% old/ new/   several runs of the same work on either side, in CI
  weft diff old.weft new.weft -o change.md          for a pull request
"""


class _Percent(click.ParamType[float]):
    """A part of a whole: 5%, 0.5 %."""

    name = "percent"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", value)
        if not match:
            self.fail(f"{value!r} is no percentage, such as 5%", param, ctx)
        return float(match[1]) / 100


@click.command(epilog=EPILOG)
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option(
    "-f", "--format", "name", type=click.Choice(FORMATS), help="What to write; by default as FILE ends, or text."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to; stdout by default.")
@click.option(
    "--normalise",
    type=click.Choice([each.value for each in Normalise]),
    default=Normalise.SAMPLES.value,
    show_default=True,
    help="samples: shares of all samples; time: time for each second of recording; none: times as they are, of the "
    "same work from its beginning to its end.",
)
@click.option(
    "--fail-above",
    type=_Percent(),
    metavar="PERCENT",
    help=f"Exit with {FAILED} where a function, or all together, certainly takes more, by more than this part of all "
    "time before.",
)
@click.option(
    "--certainty",
    type=_Percent(),
    default="95%",
    show_default=True,
    metavar="PERCENT",
    help="That all intervals hold at once.",
)
@idle_option
@all_frames_option
def diff(
    before: Path,
    after: Path,
    name: str | None,
    output: Path | None,
    normalise: str,
    fail_above: float | None,
    certainty: float,
    *,
    idle: bool,
    all_frames: bool,
) -> int:
    """Show what takes more time in AFTER than in BEFORE, and what takes less, with confidence intervals.

    Each is a recording, or a folder of several recordings of the same work.
    """
    if not 0.5 <= certainty < 1:
        raise click.UsageError("--certainty is at least 50% and below 100%")
    view = View(idle=idle, all_frames=all_frames)
    comparison = compare_recordings(before, after, Normalise(normalise), certainty, view)
    _write(comparison, name or _format(output), output)
    if fail_above is None:
        return 0
    failed = list(comparison.difference.above(fail_above))
    if failed:
        function, change = failed[0]
        more = f", and {len(failed) - 1:,} more" if len(failed) > 1 else ""
        click.echo(f"weft: {escape(function)} takes {signed(change.change)}{more}", err=True)
    return FAILED if failed else 0


def _format(output: Path | None) -> str:
    return next((name for ending, name in ENDINGS.items() if output and output.name.endswith(ending)), "text")


def _write(comparison: Comparison, name: str, output: Path | None) -> None:
    chunks = _render(comparison, name, terminal=output is None and sys.stdout.isatty())
    if output is not None:
        write_file(output, chunks)
        return
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def _render(comparison: Comparison, name: str, *, terminal: bool) -> Iterator[bytes]:
    from weft.report.diff import collapsed, html, markdown, text

    match name:
        case "html":
            return html.render(comparison)
        case "markdown":
            return markdown.render(comparison)
        case "collapsed":
            return collapsed.render(comparison)
        case _:
            return text.render(comparison, terminal=terminal)
