"""The flame graph as cells of a terminal: which call lies where. Root on top; calls are in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.live.stacks import Flame
from weft.live.sums import Ledger


@dataclass(frozen=True, slots=True)
class Bar:
    """A call: a node of the tree, from column `begin` up to `end`."""

    node: int
    begin: int
    end: int


def layout(flame: Flame, ledger: Ledger, zoom: int, width: int) -> list[list[Bar]]:
    """The bars of each depth, from the root on, each at least a cell wide. The zoomed call and its callers are as wide as all.

    The first row is the root of all. A stack may be any number of calls deep.
    """
    totals = ledger.total_ns
    if width <= 0 or zoom >= len(totals) or totals[zoom] <= 0:
        return []
    callers = [zoom]
    while callers[-1]:
        callers.append(flame.tree.parent[callers[-1]])
    rows = [[Bar(node, 0, width)] for node in reversed(callers)]
    while True:
        row: list[Bar] = []
        scale = width / totals[zoom]
        for bar in rows[-1]:
            row += _below(flame, totals, bar, scale)
        if not row:
            return rows
        rows.append(row)


def _below(flame: Flame, totals: Sequence[int], bar: Bar, scale: float) -> list[Bar]:
    """The bars of what a call calls: to the left, in its own width."""
    bars, at, cost = [], bar.begin, 0
    children = [child for child in flame.children[bar.node] if child < len(totals) and totals[child] > 0]
    for child in sorted(children, key=lambda child: flame.samples[flame.tree.frame[child]].function):
        cost += totals[child]
        end = min(bar.end, bar.begin + round(cost * scale))
        if end > at:
            bars.append(Bar(child, at, end))
            at = end
    return bars


def moved(rows: Sequence[Sequence[Bar]], node: int, key: str) -> int:
    """The call that an arrow key leads to from another: its caller, the widest that it calls, its neighbours."""
    for depth, row in enumerate(rows):
        for place, bar in enumerate(row):
            if bar.node != node:
                continue
            if key == "up":
                above = rows[depth - 1] if depth else [bar]
                return next((each.node for each in above if each.begin <= bar.begin < each.end), node)
            if key == "down":
                below = rows[depth + 1] if depth + 1 < len(rows) else []
                mine = [each for each in below if bar.begin <= each.begin < bar.end]
                return max(mine, key=lambda each: each.end - each.begin, default=bar).node
            step = place + (1 if key == "right" else -1)
            return row[min(max(step, 0), len(row) - 1)].node
    return rows[0][0].node if rows else 0
