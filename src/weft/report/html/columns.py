"""A profile as the columns that the page reads: strings once, stacks in preorder, everything else as numbers."""

from __future__ import annotations

from typing import Any

from weft.profile.names import NO_FRAME, escape
from weft.profile.quality import Account
from weft.profile.tables import ACTIVE, Profile
from weft.profile.units import duration
from weft.sample import Frame, FrameKind, State

LONGEST_NAME = 1000  # characters; a longer one is cut, and still told apart from others with the same beginning

_EMPTY_STACK = Frame(kind=FrameKind.PYTHON, function=NO_FRAME, file="", line=0)


def columns(profile: Profile, account: Account, *, idle: bool) -> dict[str, Any]:
    """What the page's scripts read (model.js tells the types). Times are in ns.

    ``stacks.back`` says how many places back in the preorder a stack's caller is, 0 for outermost frames: almost
    always a small number, so that the text stays short.
    """
    order = _preorder(profile)
    places = {stack: place for place, stack in enumerate(order)}
    frames: dict[Frame, int] = {}
    processes = {process: place for place, process in enumerate(profile.processes)}
    threads = {thread: place for place, thread in enumerate(profile.threads)}
    parent = profile.stacks.parent
    return {
        "facts": _facts(profile),
        "states": [int(state) for state in (State if idle else ACTIVE)],
        "stacks": {
            "back": [places[stack] - places[parent[stack]] if parent[stack] else 0 for stack in order],
            "frame": [frames.setdefault(_plain(profile, stack), len(frames)) for stack in order],
        },
        **_frame_columns(frames),
        "processes": [{"pid": process.pid} for process in profile.processes.values()],
        "threads": [
            {"name": shown(thread.name), "tid": thread.tid, "process": processes[thread.process]}
            for thread in profile.threads.values()
        ],
        "totals": {
            "thread": [threads[total.thread] for total in profile.totals],
            "stack": [places[total.stack] for total in profile.totals],
            "state": [int(total.state) for total in profile.totals],
            "weight": [total.weight_ns for total in profile.totals],
            "ticks": [total.ticks for total in profile.totals],
        },
        "account": {
            "summary": account.summary,
            "spotless": not (account.lost or account.degraded),
            "lines": account.lines(),
        },
    }


def shown(text: str) -> str:
    """A name of the target as the page may show it: escaped, and of bounded length."""
    return escape(text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…")


def _preorder(profile: Profile) -> list[int]:
    """The stacks that have time, and all their callers: callers first, each followed directly by what it calls.

    The empty stack, where it has time, is among them like an outermost frame.
    """
    parent = profile.stacks.parent
    wanted = bytearray(len(parent))
    wanted[0] = 1
    for total in profile.totals:
        stack = total.stack
        while not wanted[stack]:
            wanted[stack] = 1
            stack = parent[stack]
    children: dict[int, list[int]] = {}
    for stack in range(len(parent) - 1, 0, -1):  # backwards, because the pile gives back what came last
        if wanted[stack]:
            children.setdefault(parent[stack], []).append(stack)
    order = [0] if any(total.stack == 0 for total in profile.totals) else []
    pile = children.get(0, [])
    while pile:
        stack = pile.pop()
        order.append(stack)
        pile.extend(children.get(stack, ()))
    return order


def _plain(profile: Profile, stack: int) -> Frame:
    """The innermost frame, without what the page does not tell apart: columns and flags."""
    if stack == 0:
        return _EMPTY_STACK
    frame = profile.frames[profile.stacks.frame[stack]]
    return Frame(frame.kind, frame.function, frame.file, frame.line, frame.first_line)


def _frame_columns(frames: dict[Frame, int]) -> dict[str, Any]:
    strings: dict[str, int] = {}
    return {
        "frames": {
            "function": [strings.setdefault(frame.function, len(strings)) for frame in frames],
            "file": [strings.setdefault(frame.file, len(strings)) for frame in frames],
            "line": [frame.line for frame in frames],
            "first": [frame.first_line for frame in frames],
        },
        "strings": [shown(text) for text in strings],
    }


def _facts(profile: Profile) -> list[str]:
    """What was recorded, in a few words each."""
    processes = list(profile.processes.values())
    facts = [f"process {process.pid}" for process in processes[:1]]
    if len(processes) > 1:
        facts = [f"{len(processes):,} processes"]
    facts += sorted({shown(process.runtime) for process in processes if process.runtime})[:3]
    facts.append(f"{duration(profile.duration_ns)} at {profile.rate_hz:,} Hz, mode {shown(profile.mode)}")
    return facts
