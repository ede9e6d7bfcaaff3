"""Widgets made of lines of cells, of which only what has changed is drawn anew. Text is never taken for markup."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from weft.live.flame import Bar, find, keys_of, layout, moved
from weft.live.model import Model
from weft.live.stacks import Flame
from weft.live.tables import COLOURS, Column, Spans, Table, function_spans, name_of
from weft.profile.units import share
from weft.report.html.content import kind_of

_NARROW: Final = 70  # columns of a terminal, below which a table shows no figures that only add to another
_ALL: Final = "all"
_CHOSEN: Final = Style(reverse=True)


@lru_cache(maxsize=256)
def style(text: str) -> Style:
    """A style by its words, as rich has them."""
    return Style.parse(text)


def fitted(spans: Spans, width: int, *, right: bool = False) -> list[Segment]:
    """Text as segments of exactly `width` cells, cut with an ellipsis where it is too long."""
    segments: list[Segment] = []
    left = width
    for number, (text, words) in enumerate(spans):
        text = text[: width + 1]
        size = cell_len(text)
        rest = number + 1 < len(spans) and any(more for more, _ in spans[number + 1 :])
        if size > left or (size == left and rest):
            text = f"{set_cell_size(text, max(left - 1, 0))}…" if left else ""
            size = left
        segments.append(Segment(text, style(words)))
        left -= size
        if not left:
            break
    if left:
        segments.insert(0 if right else len(segments), Segment(" " * left))
    return segments


class Cells(Widget):
    """Lines of cells."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._strips: list[Strip] = []

    def put(self, strips: Sequence[Strip]) -> None:
        """Show these lines."""
        before, self._strips = self._strips, list(strips)
        for y in range(max(len(before), len(self._strips))):
            if y >= len(before) or y >= len(self._strips) or before[y] != self._strips[y]:
                self.refresh(Region(0, y, self.size.width, 1))

    def put_spans(self, lines: Sequence[Spans]) -> None:
        """Show lines of text."""
        self.put([Strip(fitted(line, self.size.width), self.size.width) for line in lines])

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)


class TableView(Cells, can_focus=True):
    """A table with a row that is chosen."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._table: Table | None = None
        self._first = 0  # the row at the top
        self.chosen = 0

    def show(self, table: Table) -> None:
        """Show another table, or the same with other figures."""
        self._table = table
        self.choose(self.chosen)

    def choose(self, row: int) -> None:
        """Choose a row, by its number from the top; the nearest, if there is none."""
        rows = len(self._table.rows) if self._table else 0
        room = max(1, self.size.height - 1)
        self.chosen = min(max(row, 0), max(rows - 1, 0))
        self._first = min(max(self._first, self.chosen - room + 1), self.chosen, max(rows - room, 0))
        self._draw()

    @property
    def page(self) -> int:
        """How many rows there is room for."""
        return max(1, self.size.height - 1)

    def on_resize(self) -> None:
        """Fit into another size."""
        self.choose(self.chosen)

    def _draw(self) -> None:
        table, width = self._table, self.size.width
        if table is None or not width:
            return
        columns = [each for each in table.columns if width >= _NARROW or each.order or not each.width]
        flexible = sum(not column.width for column in columns)
        left = max(0, width - sum(column.width + 1 for column in columns) + 1)
        widths = [column.width or left // flexible for column in columns]
        strips = [self._head(table, columns, widths)]
        for number in range(self._first, min(self._first + self.page, len(table.rows))):
            cells = [column.cell(table.rows[number]) for column in columns]
            strips.append(self._line(columns, widths, cells, chosen=number == self.chosen))
        if not table.rows:
            strips.append(Strip(fitted([(f"  {table.empty}", "dim")], width), width))
        self.put(strips)

    def _head(self, table: Table, columns: Sequence[Column[object]], widths: Sequence[int]) -> Strip:
        titles: list[Spans] = []
        for column in columns:
            is_order = column is table.columns[table.sorted_by]
            titles.append([(column.title + ("▾" if is_order else ""), "bold underline" if is_order else "bold")])
        return self._line(columns, widths, titles)

    def _line(
        self, columns: Sequence[Column[object]], widths: Sequence[int], cells: Sequence[Spans], *, chosen: bool = False
    ) -> Strip:
        segments: list[Segment] = []
        for column, width, spans in zip(columns, widths, cells, strict=True):
            if segments:
                segments.append(Segment(" "))
            segments += fitted(spans, width, right=column.is_number)
        if chosen:  # in one colour: reversed, each of them would be a background
            segments = [Segment(segment.text, _CHOSEN) for segment in segments]
        strip = Strip(segments).adjust_cell_length(self.size.width, _CHOSEN if chosen else None)
        return strip.simplify() if chosen else strip


class FlameView(Cells, can_focus=True):
    """The flame graph, with a call that is chosen and one that is zoomed into."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._model: Model | None = None
        self._flame: Flame | None = None
        self._rows: list[list[Bar]] = []
        self._first = 0  # the depth at the top
        self._chosen = self._zoom = 0  # nodes

    @property
    def chosen(self) -> int:
        """The node that is chosen."""
        return self._chosen

    def show(self, model: Model) -> None:
        """Show what the model has now."""
        flame, ledger = model.flame()
        if self._flame is not None and flame is not self._flame:  # its nodes have other numbers
            chosen, zoom = keys_of(self._flame, self._chosen), keys_of(self._flame, self._zoom)
            self._chosen, self._zoom = find(flame, chosen), find(flame, zoom)
        self._model, self._flame = model, flame
        self._rows = layout(flame, ledger, self._zoom, self.size.width)
        if not self._rows and self._zoom:
            self._zoom = 0
            self._rows = layout(flame, ledger, 0, self.size.width)
        self._draw()

    def move(self, key: str) -> None:
        """Choose another call, by an arrow key."""
        self._chosen = moved(self._rows, self._chosen, key)
        self._draw()

    def zoom(self, *, out: bool = False) -> None:
        """Zoom into the chosen call, or out to the caller of the one that is zoomed into."""
        if self._model is None or self._flame is None:
            return
        self._zoom = self._flame.tree.parent[self._zoom] if out else self._chosen
        self.show(self._model)

    def on_resize(self) -> None:
        """Fit into another size."""
        if self._model:
            self.show(self._model)

    def _draw(self) -> None:
        room = max(1, self.size.height - 1)
        depths = [depth for depth, row in enumerate(self._rows) if any(bar.node == self._chosen for bar in row)]
        depth = depths[0] if depths else 0
        self._first = min(max(self._first, depth - room + 1), depth, max(len(self._rows) - room, 0))
        rows = self._rows[self._first : self._first + room]
        strips = [self._strip(row) for row in rows]
        strips += [Strip.blank(self.size.width)] * (room - len(strips))
        self.put([*strips, Strip(fitted(self._about(), self.size.width), self.size.width)])

    def _strip(self, row: Sequence[Bar]) -> Strip:
        assert self._flame is not None
        segments: list[Segment] = []
        at = 0
        for bar in row:
            if bar.begin > at:
                segments.append(Segment(" " * (bar.begin - at)))
            frame = self._flame.samples[self._flame.tree.frame[bar.node]] if bar.node else None
            name = name_of(frame) if frame else _ALL
            colours = f"#101010 on {COLOURS[kind_of(frame)]}" if frame else "reverse"
            words = f"{colours} bold underline" if bar.node == self._chosen else colours
            segments += [Segment("▏", style(colours)), *fitted([(name, words)], bar.end - bar.begin - 1)]
            if bar.end - bar.begin - 1 > cell_len(name):
                segments[-1] = Segment(segments[-1].text, style(words))
            at = bar.end
        return Strip(segments).adjust_cell_length(self.size.width)

    def _about(self) -> Spans:
        """What the chosen call is, and costs."""
        if self._model is None or self._flame is None:
            return []
        ledger = self._model.flame()[1]
        whole, text, node = self._model.whole_ns, self._model.unit.text, self._chosen
        if node >= len(ledger.total_ns):
            return [("no samples", "dim")]
        own, total = ledger.self_ns[node], ledger.total_ns[node]
        costs = f"{share(total, whole)} {text(total)}, self {share(own, whole)} {text(own)}"
        frame = self._flame.samples[self._flame.tree.frame[node]] if node else None
        return [(f"{costs}  ", "bold"), *(function_spans(frame, frame.first_line) if frame else [(_ALL, "")])]
