"""The flame graph as cells of a terminal: which call lies where. Root on top; calls are in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.live.stacks import Flame
from weft.live.sums import Ledger
from weft.profile.transform import by_function

Keys = tuple[tuple[str, str, int], ...]  # functions on a path, the outermost first


@dataclass(frozen=True, slots=True)
class Bar:
    """A call: a node of the tree, from column `begin` up to `end`."""

    node: int
    begin: int
    end: int


def layout(flame: Flame, ledger: Ledger, zoom: int, width: int) -> list[list[Bar]]:
    """The bars of each depth, from the root on, each at least a cell wide.

    The first row is the root of all; the zoomed call and its callers are as wide as it. Stacks may be deep.
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


def keys_of(flame: Flame, node: int) -> Keys:
    """The functions on the path to a call, by which it is found again in a tree that was made anew."""
    return tuple(by_function(flame.samples[number]) for number in flame.tree.path(node))


def find(flame: Flame, keys: Keys) -> int:
    """The call at the end of a path; where there is none, the innermost of its callers that is there."""
    node = 0
    for key in keys:
        called = (child for child in flame.children[node] if by_function(flame.samples[flame.tree.frame[child]]) == key)
        child = next(called, None)
        if child is None:
            break
        node = child
    return node
