"""A difference on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from weft.profile.names import escape, short_file
from weft.report.console import printed
from weft.report.diff.content import Comparison, Section, closing, figures, headline, notes, sections

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.profile.difference import Difference, Row

TOP: Final = 12  # functions in each table


def render(comparison: Comparison, *, terminal: bool) -> Iterator[bytes]:
    """The difference; in colours and as wide as the terminal if it goes to one."""
    yield printed(lambda _: _parts(comparison), terminal=terminal)


def _parts(comparison: Comparison) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(headline(comparison.difference), style="bold")
    for section in sections(comparison.difference):
        yield Text(f"\n{section.title}", style="bold")
        yield _table(comparison.difference, section)
        if len(section.rows) > TOP:
            yield Text(f"  and {len(section.rows) - TOP:,} more", style="dim")
    yield ""
    for note in notes(comparison.difference):
        yield Text(f"{note}.", style="dim")
    yield ""
    for line in closing(comparison):
        yield Text(line, style="yellow" if line.startswith("warning") else "dim")


def _table(difference: Difference, section: Section) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 1), pad_edge=True, header_style="dim", expand=True)
    for title in ("before", "after", "change", "between", ""):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("function", ratio=1, no_wrap=True, overflow="ellipsis")
    for row in section.rows[:TOP]:
        before, after, change, between, times = figures(difference, getattr(row, section.kind))
        colour = "red" if getattr(row, section.kind).change > 0 else "blue"
        table.add_row(before, after, Text(change, style=colour), Text(between, style="dim"), times, _name(row))
    return table


def _name(row: Row) -> RenderableType:
    from rich.text import Text

    place = f"  {escape(short_file(row.file))}" if row.file else ""
    return Text.assemble(escape(row.function), (place, "dim"), no_wrap=True, overflow="ellipsis")
