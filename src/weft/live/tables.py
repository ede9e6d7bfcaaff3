"""The tables of the live view, as text: what stands in which column, in which order, and what a filter leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from weft.live.model import WINDOW_NS, Model, Pane, Row, ThreadRow
from weft.live.waits import WaitRow
from weft.profile.names import STATES, escape, process_name, short_file, thread_name
from weft.profile.units import BYTES, duration, share
from weft.report.html.content import kind_of
from weft.sample import Frame, State

_UNKNOWN: Final = "-"
LONGEST: Final = 400  # characters of a name that are looked at
_STATE_STYLES: Final = {State.RUNNING: "green", State.RUNNABLE: "yellow", State.GIL: "red"}
# By kind_of(): the hues of the HTML report, of a lightness that both dark and light terminals set off.
COLOURS: Final = ("#87bcf4", "#d0b56c", "#cdafae", "#c6a8ea", "#89c8a6", "#f79c85", "#b3b8bd")
KINDS: Final = ("Python", "C, C++", "missing frames", "Cython", "kernel", "Rust", "interpreter")

Spans = list[tuple[str, str]]  # text and style, as rich takes it
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column; width 0: what is left. `order`: sorts by it, the largest first; None: it cannot be sorted by."""

    title: str
    width: int
    cell: Callable[[T], Spans]
    order: Callable[[T], Any] | None = None
    is_number: bool = True  # to the right


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in their order; a row's cells are made when it is shown. `texts`: what a row is searched by."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    sorted_by: int
    text: Callable[[Any], str]
    empty: str  # what is told where there is no row


def columns_of(model: Model) -> list[Column[Any]]:
    """The columns of the pane that is shown."""
    pane = model.settings.pane
    if pane is Pane.THREADS:
        return _thread_columns(model)
    if pane is Pane.GIL:
        return _wait_columns(model)
    return _cost_columns(model)


def table_of(model: Model, sort: int, wanted: str, *, backwards: bool = False) -> Table:
    """The table of the pane that is shown: rows with `wanted` in their text, by the column `sort`."""
    columns = columns_of(model)
    rows: list[Any]
    text: Callable[[Any], str]
    match model.settings.pane:
        case Pane.THREADS:
            rows = list(model.thread_rows())
            text = _thread_text
        case Pane.GIL:
            rows = list(model.wait_rows())
            text = _wait_text
        case _:
            rows = list(model.rows())
            text = _row_text
    if wanted:
        rows = [row for row in rows if wanted.casefold() in text(row).casefold()]
    if order := columns[sort].order:
        rows = sorted(rows, key=text)
        rows.sort(key=order, reverse=not backwards)
    return Table(columns, rows, sort, text, _why_empty(model, wanted))


def sortable(columns: Sequence[Column[Any]]) -> list[int]:
    """The columns that a table can be sorted by."""
    return [number for number, column in enumerate(columns) if column.order]


def function_spans(frame: Frame, line: int) -> Spans:
    """A function with the colour of its kind, and its place."""
    return [("▌", COLOURS[kind_of(frame)]), (name_of(frame), ""), (f"  {_place(frame, line)}", "dim")]


def name_of(frame: Frame) -> str:
    """A function's name, harmless on a terminal."""
    return escape(frame.function[:LONGEST])


def _place(frame: Frame, line: int) -> str:
    file = escape(short_file(frame.file)[-LONGEST:])
    return f"{file}:{line}" if file and line > 0 else file


def _cost_columns(model: Model) -> list[Column[Row]]:
    whole, text = model.whole_ns, model.unit.text
    is_line = model.settings.pane is Pane.LINES

    def name(row: Row) -> Spans:
        return function_spans(row.frame, row.frame.line if is_line else row.frame.first_line)

    def own(row: Row) -> Spans:
        return [(share(row.cost.self_ns, whole), "" if row.cost.self_ns else "dim")]

    return [
        Column("self", 7, own, lambda row: row.cost.self_ns),
        Column("", 8, lambda row: [(text(row.cost.self_ns), "dim")]),
        Column("total", 7, lambda row: [(share(row.cost.total_ns, whole), "")], lambda row: row.cost.total_ns),
        Column("", 8, lambda row: [(text(row.cost.total_ns), "dim")]),
        Column(model.unit.tick + "s", 8, lambda row: [(f"{row.cost.ticks:,}", "")], lambda row: row.cost.ticks),
        Column("line" if is_line else "function", 0, name, is_number=False),
    ]


def _thread_columns(model: Model) -> list[Column[ThreadRow]]:
    span, since = model.span_ns, model.since_ns

    def part(title: str, state: State) -> Column[ThreadRow]:
        return Column(title, 8, lambda row: _part(row.times[state], span), lambda row: row.times[state])

    def where(row: ThreadRow) -> Spans:
        return function_spans(row.frame, row.frame.line) if row.frame else [(_UNKNOWN, "dim")]

    def name(row: ThreadRow) -> Spans:
        process = model.processes.get(row.thread.process) if len(model.processes) > 1 else None
        of = f"  of {process_name(process)[:LONGEST]} {process.pid}" if process else ""
        return [(escape(row.thread.name[:LONGEST]) or _UNKNOWN, "bold"), (of, "dim")]

    shares: list[Column[ThreadRow]]
    if model.unit is BYTES:
        shares = [Column("bytes", 9, lambda row: [(model.unit.text(sum(row.times)), "")], lambda row: sum(row.times))]
    else:
        shares = [
            part("running", State.RUNNING),
            part("ready", State.RUNNABLE),
            part("GIL wait", State.GIL),
            Column("GIL held", 8, lambda row: _part(row.made_wait_ns, since), lambda row: row.made_wait_ns),
        ]
    return [
        Column("TID", 7, lambda row: [(str(row.thread.tid), "")], lambda row: -row.thread.tid),
        Column("state", 8, _state, is_number=False),
        *shares,
        Column("thread", 0, name, is_number=False),
        Column("in", 0, where, is_number=False),
    ]


def _wait_columns(model: Model) -> list[Column[WaitRow]]:
    whole = sum(row.weight_ns for row in model.wait_rows())

    def waiter(row: WaitRow) -> Spans:
        return _in(row.waiter_frame, thread_name(row.waiter)) if row.waiter else [("not known", "dim")]

    def holder(row: WaitRow) -> Spans:
        return _in(row.holder_frame, thread_name(row.holder)) if row.holder else [("not known", "dim")]

    columns: list[Column[WaitRow]] = [
        Column("share", 7, lambda row: [(share(row.weight_ns, whole), "")], lambda row: row.weight_ns),
        Column("time", 8, lambda row: [(model.unit.text(row.weight_ns), "dim")]),
    ]
    if model.waits.is_sampled:
        return [*columns, Column("who holds it, as sampled", 0, holder, is_number=False)]
    how = f", estimated, last {duration(WINDOW_NS)}" if model.waits.is_estimated else ""
    return [
        *columns,
        Column("who waits", 0, waiter, is_number=False),
        Column(f"for whom{how}", 0, holder, is_number=False),
    ]


def _part(ns: int, span_ns: int) -> Spans:
    text = share(min(ns, span_ns), span_ns)
    return [(text, "" if ns else "dim")]


def _in(frame: Frame | None, thread: str) -> Spans:
    """A function and the thread that runs it."""
    if frame is None:
        return [("(not sampled)", "dim"), (f"  in {thread[:LONGEST]}", "dim")]
    return [("▌", COLOURS[kind_of(frame)]), (name_of(frame), ""), (f"  in {thread[:LONGEST]}", "dim")]


def _state(row: ThreadRow) -> Spans:
    if row.thread.end_ns is not None:
        return [("ended", "dim")]
    return [(_UNKNOWN, "dim")] if row.state is None else [(STATES[row.state], _STATE_STYLES.get(row.state, "dim"))]


def _row_text(row: Row) -> str:
    return f"{row.key[0][:LONGEST]} {row.key[1][-LONGEST:]}:{row.key[2]}"


def _thread_text(row: ThreadRow) -> str:
    frame = f" {row.frame.function[:LONGEST]}" if row.frame else ""
    return f"{row.thread.tid} {row.thread.name[:LONGEST]}{frame}"


def _wait_text(row: WaitRow) -> str:
    threads = (thread.name[:LONGEST] for thread in (row.waiter, row.holder) if thread)
    frames = (frame.function[:LONGEST] for frame in (row.waiter_frame, row.holder_frame) if frame)
    return " ".join([*threads, *frames])


def _why_empty(model: Model, wanted: str) -> str:
    if wanted:
        return "nothing matches the filter: c clears it"
    if model.settings.pane is Pane.GIL:
        return "no thread was seen waiting for the GIL"
    if model.settings.idle:
        return "no samples"
    return "no samples of active threads: o shows blocked ones, too"
