"""A difference as Markdown, for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weft.report.diff.content import Comparison, closing, figures, headline, name, notes, sections

TOP: Final = 10  # functions in each table
LONGEST: Final = 120  # characters of a name


def render(comparison: Comparison) -> Iterator[bytes]:
    """The difference as GitHub's Markdown. Names are code: nothing in them is markup, a mention or a link."""
    lines = [f"**weft:** {headline(comparison.difference)}.", ""]
    for section in sections(comparison.difference):
        lines += [
            f"{section.title}:",
            "",
            "| before | after | change | between | | function |",
            "|---:|---:|---:|---:|---:|---|",
        ]
        for row in section.rows[:TOP]:
            cells = figures(comparison.difference, getattr(row, section.kind))
            lines.append(f"| {' | '.join(cells)} | {_code(name(row))} |")
        lines.append("")
        if len(section.rows) > TOP:
            lines += [f"and {len(section.rows) - TOP:,} more", ""]
    lines += ["<details><summary>What this rests on</summary>", ""]
    lines += [f"- {_note(note)}" for note in notes(comparison.difference)]
    lines += [f"- {_code(line)}" for line in closing(comparison)]
    lines += ["", "</details>"]
    yield ("\n".join(lines) + "\n").encode()


def _note(text: str) -> str:
    """A note whose last words may be a function's name."""
    start, found, rest = text.partition("such as ")
    return f"{start}{found}{_code(rest)}" if found else text


def _code(text: str) -> str:
    """Text as code, in a cell of a table: https://github.github.com/gfm/#code-spans and #example-200."""
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{padding}{text}{padding}{fence}".replace("|", "\\|")
