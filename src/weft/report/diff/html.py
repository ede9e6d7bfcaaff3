"""A difference as one HTML file: a red and blue flame graph, and the table of what has changed."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any, Final

from weft.profile.difference import Normalise, Row
from weft.profile.names import NO_FRAME, escape, short_file
from weft.report.diff.content import Comparison, closing, headline, notes
from weft.report.diff.scale import scales

_FOLDER: Final = Path(__file__).with_name("page")
LONGEST_NAME: Final = 1000  # characters
NARROWEST: Final = 1 / 20_000  # of all time: what takes less on both sides is shown within its caller

# Inside <script> the parser looks for "</script" and "<!--" only; nothing that could be markup is left in a name.
_INERT: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def render(comparison: Comparison) -> Iterator[bytes]:
    """The page. It holds all that it needs, and its policy lets it load and run nothing else."""
    style, script = ("\n" + (_FOLDER / name).read_text("utf-8") for name in ("style.css", "page.js"))
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = json.dumps(_data(comparison), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    yield (
        Template((_FOLDER / "page.html").read_text("utf-8"))
        .substitute(
            title=html.escape(f"{_name(comparison.before.path.name)} → {_name(comparison.after.path.name)}"),
            policy=policy,
            style=style,
            script=script,
            data=data.translate(_INERT),
        )
        .encode()
    )


def _data(comparison: Comparison) -> dict[str, Any]:
    """What page.js reads: `stacks` as columns in which callers come first; times as parts of all time before."""
    difference = comparison.difference
    rows = {(row.function, row.file): row for row in difference.rows}
    parents, numbers, before, after = _stacks(comparison)
    functions = [*comparison.merged.functions, (NO_FRAME, "")]
    return {
        "headline": headline(difference),
        "notes": list(notes(difference)),
        "closing": list(closing(comparison)),
        "unit": "" if difference.normalise is Normalise.SAMPLES else difference.unit.name,
        "per": "/s" if difference.normalise is Normalise.TIME else "",
        "whole": difference.whole_weight,
        "functions": {
            "name": [_name(name) for name, _ in functions],
            "file": [_name(short_file(file)) if file else "" for _, file in functions],
            "change": [_change(rows.get(function)) for function in functions],
        },
        "stacks": {"parent": parents, "function": numbers, "before": before, "after": after},
    }


def _change(row: Row | None) -> list[float] | None:
    """Own and total change: before, after, low and high of each; low and high 0: nothing is known."""
    if row is None:
        return None
    figures: list[float] = []
    for change in (row.own, row.total):
        known = abs(change.low) != float("inf")
        figures += [change.before, change.after, change.low if known else 0.0, change.high if known else 0.0]
    return [round(figure, 7) for figure in figures]


def _stacks(comparison: Comparison) -> tuple[list[int], list[int], list[float], list[float]]:
    """The tree without what is too narrow to be seen. Node 0 is the root, of no function."""
    merged = comparison.merged
    sides = [
        [weight * scale for weight in side] for side, scale in zip(merged.weight_ns, scales(comparison), strict=True)
    ]
    totals = [list(side) for side in sides]
    for node in range(len(merged.stacks) - 1, 0, -1):
        for side in totals:
            side[merged.stacks.parent[node]] += side[node]
    shown = [0]  # the node that each stack is shown as, or within
    parents, numbers = [-1], [-1]
    own: tuple[list[float], list[float]] = ([0.0], [0.0])
    for node in range(1, len(merged.stacks)):
        caller = shown[merged.stacks.parent[node]]
        if max(totals[0][node], totals[1][node]) >= NARROWEST:
            shown.append(len(parents))
            parents.append(caller)
            numbers.append(merged.stacks.frame[node])
            own[0].append(0.0)
            own[1].append(0.0)
        else:
            shown.append(caller)
        for kept, side in zip(own, sides, strict=True):
            kept[shown[node]] += side[node]
    if sides[0][0] or sides[1][0]:  # the empty stack, as an outermost frame
        parents.append(0)
        numbers.append(len(merged.functions))
        for kept, side in zip(own, sides, strict=True):
            kept.append(side[0])
    before, after = ([round(value, 7) for value in kept] for kept in own)
    return parents, numbers, before, after


def _name(text: str) -> str:
    return escape(text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…")


def _digest(text: str) -> str:
    """The hash of an inline element's text as a CSP source (https://www.w3.org/TR/CSP3/#match-element-to-source-list)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
