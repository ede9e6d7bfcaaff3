"""What stands above the view: what is watched, and how far that can be trusted; and below it, the keys."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.live.model import WINDOW_NS, Model, Pane
from weft.live.tables import LONGEST, Spans
from weft.profile.names import escape, recording_name, thread_name
from weft.profile.units import BYTES, amount, duration

FOOT = (
    ("F1", "Help"),
    ("F3", "Search"),
    ("F4", "Filter"),
    ("F5", "Flame"),
    ("F6", "Sort"),
    ("F10", "Quit"),
    ("p", "Pause"),
    ("w", "Write"),
    ("n", "Native"),
    ("t", "Thread"),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Shares of a core that are used by the view, and by its recorder; None: it has none."""

    view: float
    recorder: float | None


class CostMeter:
    """CPU time of this process and of the recorder, from one look to the next."""

    def __init__(self, recorder: int | None) -> None:
        self._recorder = recorder
        self._last = self._read()

    def __call__(self) -> Cost:
        """The cost since the last look."""
        before, self._last = self._last, self._read()
        at, view, recorder = (max(0.0, now - then) for now, then in zip(self._last, before, strict=True))
        at = max(at, 1e-3)
        return Cost(view / at, None if self._recorder is None else recorder / at)

    def _read(self) -> tuple[float, float, float]:
        return time.monotonic(), time.process_time(), _cpu_s(self._recorder)


def _cpu_s(pid: int | None) -> float:
    """CPU seconds of a process; 0 if it has ended. proc_pid_stat(5): utime and stime are fields 14 and 15."""
    if pid is None:
        return 0.0
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def head_of(model: Model, cost: Cost | None, condition: str) -> list[Spans]:
    """Three lines: the target, the recording, the account."""
    processes = list(model.processes.values())
    pids = f"PID {processes[0].pid}" if len(processes) == 1 else f"{len(processes):,} processes"
    runtime = next((process.runtime for process in processes if process.runtime), None) or "no Python found"
    first: Spans = [
        (f" {condition} ", "bold reverse" if condition != "live" else "bold green reverse"),
        (f" {recording_name(processes)[:LONGEST]}", "bold"),
        (f"  {pids}", ""),
        (f"  {escape(runtime[:LONGEST])}", "dim"),
    ]
    return [first, *_account(model, cost)]


def _account(model: Model, cost: Cost | None) -> list[Spans]:
    account = model.account
    assert account is not None  # it comes with the first news
    counts = account.counts
    pace = "" if model.unit is BYTES else f", {model.rate_hz:,} Hz"
    recorded: Spans = [
        (f" {duration(max(0, model.written_ns - model.start_ns))} ", ""),
        (f"by {escape(account.collector[:LONGEST])}{pace}  ", ""),
        (f"{counts['samples_taken']:,} of {amount(counts['samples_wanted'], 'sample')}  ", ""),
        (f"{account.lost_count:,} lost", "bold red" if account.lost_count else ""),
        (f"  {sum(reason.count for reason in account.degraded):,} degraded", ""),
    ]
    seams: Spans = [
        (f" seams {counts['seams_proven']:,} proven, {counts['seams_counted']:,} counted, ", ""),
        (f"{counts['seams_open']:,} open", "bold red" if counts["seams_open"] else ""),
    ]
    if cost:
        seams.append((f"  top {100 * cost.view:.1f} %", ""))
        if cost.recorder is not None:
            seams.append((f", recorder {100 * cost.recorder:.1f} %", ""))
        seams.append((" of a core", ""))
    return [recorded, seams]


def tabs_of(model: Model, wanted: str) -> Spans:
    """The panes, and what of the recording they show."""
    settings = model.settings
    spans: Spans = []
    for number, pane in enumerate(Pane, 1):
        chosen = pane is settings.pane
        spans += [(f" {number}", "dim"), (f" {pane.value} ", "bold reverse" if chosen else "")]
    shown = ["since the reset" if model.reset_ns is not None else "since the start"]
    if not settings.since_start:
        shown = [f"last {duration(WINDOW_NS)}"]
    if settings.thread is not None and settings.thread in model.threads:
        shown.append(thread_name(model.threads[settings.thread])[:LONGEST])
    if settings.idle:
        shown.append("idle too")
    if not settings.native:
        shown.append("no native")
    if settings.all_frames:
        shown.append("internals")
    if settings.inverted:
        shown.append("inverted")
    if wanted:
        shown.append(f"filter: {escape(wanted[:LONGEST])}")
    return [*spans, ("  " + ", ".join(shown), "italic")]


def foot_of(message: str) -> Spans:
    """The keys; or what there is to say."""
    if message:
        return [(f" {escape(message[:LONGEST])}", "bold")]
    return [span for key, word in FOOT for span in ((key, "bold"), (f"{word} ", "reverse"))]


def help_of(keys: Sequence[tuple[str, str]]) -> list[Spans]:
    """The page of keys."""
    return [
        [("weft top", "bold"), ("  keys; any key closes this page", "dim")],
        *([(f"  {key:<17}", "bold cyan"), (text, "")] for key, text in keys),
    ]
