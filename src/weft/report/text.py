"""The text report: where the time goes, and how far that can be trusted, on one screen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from weft.capture import Capture
from weft.profile.gil import Blame, Function, blame
from weft.profile.names import NO_FRAME, STATES, escape, process_name, short_file, thread_name
from weft.profile.quality import Account
from weft.profile.tables import ACTIVE, Profile, View
from weft.profile.transform import Cost, by_function, by_line, by_state, costs, python_alone
from weft.profile.units import BYTES, amount, duration, share
from weft.report.console import printed
from weft.sample import State

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from weft.capture.rows import Process

TOP: Final = 12  # functions and lines in each table
TOP_THREADS: Final = 16  # and processes
FEW_PROCESSES: Final = 4  # that are named above everything else
BAR_WIDTH: Final = 10
NARROW: Final = 80  # columns; below it there are no bars

Key = tuple[str, str, int]
_ALWAYS: Final = (State.RUNNING, State.GIL, State.BLOCKED)
_BAR: Final[list[tuple[str, int | None]]] = [("", BAR_WIDTH)]


def render(capture: Capture, view: View, *, terminal: bool) -> Iterator[bytes]:
    """The report; in colours and as wide as the terminal if it goes to one."""
    yield printed(lambda width: _parts(capture, view, bars=width >= NARROW), terminal=terminal)


def _parts(capture: Capture, view: View, *, bars: bool) -> Iterator[RenderableType]:
    everything = Profile.from_capture(capture, view._replace(idle=True))
    profile = everything if view.idle else everything.active()
    yield from _header(profile)
    if profile.weight_ns == 0:
        yield ""
        blocked = "; every thread was blocked, --idle shows where" if everything.weight_ns else ""
        yield f"  No samples{blocked}."
    else:
        functions = costs(profile, by_function)
        what = "what they allocate" if profile.unit is BYTES else "time"
        own = "what they allocate themselves" if profile.unit is BYTES else "their own time"
        yield from _functions(f"Functions by {own}", functions, profile, lambda cost: cost.self_ns, bars=bars)
        title = f"Functions by {what} with all that they call"
        yield from _functions(title, functions, profile, lambda cost: cost.total_ns, bars=bars)
        if profile.unit is BYTES:
            yield from _lines("Lines of Python, with the native code that they call", python_alone(profile), bars=bars)
        else:
            yield from _lines("Hottest lines", profile, bars=bars)
    if len(everything.processes) > FEW_PROCESSES:
        yield from _processes(everything)
    yield from _threads(everything)
    yield from _blames(everything, blame(capture, everything))
    yield from _account(Account.from_capture(capture))


def _header(profile: Profile) -> Iterator[RenderableType]:
    from rich.text import Text

    if len(profile.processes) > FEW_PROCESSES:
        pythons = sum(process.runtime is not None for process in profile.processes.values())
        yield Text(f"{len(profile.processes):,} processes, {pythons:,} of them with Python", style="bold")
    else:
        for process in profile.processes.values():
            pid = f"  PID {process.pid}" if process.pid else ""
            line = Text.assemble((process_name(process), "bold"), f"{pid}  ", _about(process, profile.imported))
            line.no_wrap, line.overflow = True, "ellipsis"
            yield line
    facts = [
        duration(profile.duration_ns),
        f"{profile.pace} by {escape(str(profile.meta.get('collector', '?')))}".lstrip(),
        amount(len(profile.threads), "thread"),
    ]
    if profile.start_unix_ns:
        started = datetime.fromtimestamp(profile.start_unix_ns // 1_000_000_000).astimezone()
        facts.insert(0, started.strftime("%F %T"))
    yield Text("  ".join(facts), style="dim")
    yield f"{profile.unit.text(profile.weight_ns)} {_kind(profile)} in {amount(profile.ticks, profile.unit.tick)}"


def _about(process: Process, imported: str = "") -> Text:
    """What Python a process has run, and how it ended."""
    from rich.text import Text

    about = Text(f"from {escape(imported)}" if imported else escape(process.runtime or "no Python found"), style="dim")
    if process.exit_status is not None:
        about.append(f"  {_ending(process.exit_status)}")
    return about


def _ending(status: int) -> str:
    """How a process ended, of a status as of wait(2)."""
    try:
        code = os.waitstatus_to_exitcode(status)
        return f"exit status {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    except (ValueError, OverflowError):  # no such status or signal: a damaged capture, or one of another system
        return f"ended with status {status:#x}"


def _kind(profile: Profile) -> str:
    if profile.mode != "wall":
        kinds = {"cpu": "of CPU time", "gil": "of time with the GIL", "alloc": "allocated, as estimated by samples,"}
        return kinds.get(profile.mode, "of time")
    return "of thread time, blocked threads included," if profile.idle else "of active thread time"


def _heading(title: str) -> RenderableType:
    from rich.text import Text

    return Text(f"\n{title}", style="bold cyan")


def _table(*columns: tuple[str, int | None]) -> Table:
    """A table without lines; columns are (title, width), None for one of text."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 1), pad_edge=True, header_style="dim", show_edge=False, expand=True)
    for title, width in columns:
        if width is None:
            table.add_column(title, no_wrap=True, overflow="ellipsis", ratio=1)
        else:
            table.add_column(title, justify="right", no_wrap=True, min_width=width)
    return table


def _functions(
    title: str, functions: dict[Key, Cost], profile: Profile, weight: Callable[[Cost], int], *, bars: bool
) -> Iterator[RenderableType]:
    rows = _top(functions, weight)
    no_frame = _no_frame(profile)
    if no_frame.self_ns:
        rows = sorted([*rows, ((NO_FRAME, "", 0), no_frame)], key=lambda row: -weight(row[1]))[:TOP]
    table = _table(("self", 7), ("", 8), ("total", 7), ("", 8), *(_BAR if bars else []), ("function", None))
    whole, text = profile.weight_ns, profile.unit.text
    for key, cost in rows:
        table.add_row(
            _plain(share(cost.self_ns, whole), "" if cost.self_ns else "dim"),
            _dim(text(cost.self_ns)),
            share(cost.total_ns, whole),
            _dim(text(cost.total_ns)),
            *([_bar(weight(cost), whole)] if bars else []),
            _name(key),
        )
    yield _heading(title)
    yield table


def _lines(title: str, profile: Profile, *, bars: bool) -> Iterator[RenderableType]:
    unit = profile.unit
    table = _table(("self", 7), ("", 8), (f"{unit.tick}s", 8), *(_BAR if bars else []), ("line", None))
    for key, cost in _top(costs(profile, by_line), lambda cost: cost.self_ns):
        whole = profile.weight_ns
        table.add_row(
            share(cost.self_ns, whole),
            _dim(unit.text(cost.self_ns)),
            f"{cost.ticks:,}",
            *([_bar(cost.self_ns, whole)] if bars else []),
            _name(key),
        )
    if table.row_count:
        yield _heading(title)
        yield table


def _processes(everything: Profile) -> Iterator[RenderableType]:
    """The processes by the time that their threads ran, or waited for the GIL."""
    times = dict.fromkeys(everything.processes, 0)
    for thread, states in by_state(everything).items():
        times[everything.threads[thread].process] += _active(states)
    busiest = sorted(times, key=lambda process: (-times[process], process))
    unit = everything.unit
    table = _table(("", 7), ("bytes" if unit is BYTES else "active", 8), ("PID", 7), ("process", None), ("", None))
    whole = sum(times.values())
    for number in busiest[:TOP_THREADS]:
        process = everything.processes[number]
        told = (share(times[number], whole), _dim(unit.text(times[number])), str(process.pid))
        table.add_row(*told, _plain(process_name(process)), _about(process))
    yield _heading("Processes")
    yield table
    if len(busiest) > TOP_THREADS:
        yield _dim(f"  and {len(busiest) - TOP_THREADS:,} more")


def _threads(everything: Profile) -> Iterator[RenderableType]:
    states = by_state(everything)
    busiest = sorted(states, key=lambda thread: (-_active(states[thread]), thread))
    seen = {state for times in states.values() for state, weight_ns in times.items() if weight_ns}
    unit = everything.unit
    shown = {state: title for state, title in STATES.items() if state in _ALWAYS or state in seen}
    if unit is BYTES:
        shown = {State.RUNNING: "bytes"}
    table = _table(*((title, 8) for title in shown.values()), ("thread", None))
    for thread in busiest[:TOP_THREADS]:
        row = everything.threads[thread]
        name = thread_name(row)
        if len(everything.processes) > 1 and row.process in everything.processes:
            process = everything.processes[row.process]
            name += f" of {process_name(process)} {process.pid}"
        table.add_row(*(unit.text(states[thread][state]) for state in shown), _plain(name))
    yield _heading("Threads")
    yield table
    if len(busiest) > TOP_THREADS:
        yield _dim(f"  and {amount(len(busiest) - TOP_THREADS, 'more thread')}")


def _blames(profile: Profile, blames: list[Blame]) -> Iterator[RenderableType]:
    if not blames:
        return
    whole = sum(each.weight_ns for each in blames)
    table = _table(("share", 7), ("", 8), ("who waits", None), ("for whom", None))
    for each in blames[:TOP]:
        holder = _dim("not known") if each.holder is None else _in(profile, each.holder, each.holder_function)
        waiter = _in(profile, each.waiter, each.waiter_function)
        table.add_row(share(each.weight_ns, whole), _dim(duration(each.weight_ns)), waiter, holder)
    yield _heading("Who makes whom wait for the GIL")
    yield table
    if len(blames) > TOP:
        yield _dim(f"  and {amount(len(blames) - TOP, 'more pair')}")


def _in(profile: Profile, thread: int, function: Function | None) -> RenderableType:
    """A function and the thread that runs it."""
    from rich.text import Text

    name = f"  in {thread_name(profile.threads[thread])}"
    what = escape(function[0]) if function else "(not sampled)"
    return Text.assemble(what, (name, "dim"), no_wrap=True, overflow="ellipsis")


def _account(account: Account) -> Iterator[RenderableType]:
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 1), pad_edge=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    alarms = {"warning"} | ({"lost"} if account.lost else set())
    for subject, text in account.rows():
        table.add_row(subject, _plain(text, "yellow" if subject in alarms else ""))
    yield _heading("The honest account")
    yield table


def _top(rows: dict[Key, Cost], weight: Callable[[Cost], int]) -> list[tuple[Key, Cost]]:
    ordered = sorted(rows.items(), key=lambda row: (-weight(row[1]), row[0]))
    return [row for row in ordered[:TOP] if weight(row[1]) > 0]


def _no_frame(profile: Profile) -> Cost:
    """What the empty stack cost."""
    totals = [total for total in profile.totals if total.stack == 0]
    weight_ns = sum(total.weight_ns for total in totals)
    return Cost(weight_ns, weight_ns, sum(total.ticks for total in totals))


def _active(states: dict[State, int]) -> int:
    return sum(states[state] for state in ACTIVE)


def _name(key: Key) -> RenderableType:
    """A function, or a line of it: name, and the place dimmed."""
    from rich.text import Text

    name, file, line = key
    place = escape(short_file(file)) + (f":{line}" if line > 0 else "") if file else ""
    return Text.assemble(escape(name), "  ", (place, "dim"), no_wrap=True, overflow="ellipsis")


def _bar(part: int, whole: int) -> RenderableType:
    from rich.text import Text

    eighths = round(8 * BAR_WIDTH * part / whole)
    full, rest = divmod(eighths, 8)
    bar = ("█" * full + " ▏▎▍▌▋▊▉"[rest]).strip()
    return Text(bar, style="cyan", justify="left")


def _plain(text: str, style: str = "") -> RenderableType:
    from rich.text import Text

    return Text(text, style=style)


def _dim(text: str) -> RenderableType:
    return _plain(text, "dim")
