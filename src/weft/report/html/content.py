"""A capture as what the page reads. docs/design/0007-the-page.md lists it; pack.py tells how it is packed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Final

from weft.capture import Capture, GilWait, Source
from weft.profile.names import NO_FRAME, escape
from weft.profile.quality import Account
from weft.profile.tables import ACTIVE, EMPTY, Profile, View
from weft.profile.units import duration, share
from weft.profile.windows import Part
from weft.report.html.pack import DELTA, Packer
from weft.report.html.prefix import MAX_STACKS, PRUNED, Prefix, prefix
from weft.report.html.timeline import Rows, timeline
from weft.sample import Frame, FrameFlag, FrameKind, State

ALL: Final = View(idle=True, all_frames=True)  # of a part's profile, too: the page leaves out by itself
LONGEST_NAME: Final = 1000  # characters; a longer one is cut, and still told apart from others with the same beginning
MAX_TOTALS: Final = 2_000_000  # of thread, stack and state
MAX_SOURCES: Final = 4 << 20  # characters of all sources in the page
_EMPTY_STACK: Final = Frame(kind=FrameKind.PYTHON, function=NO_FRAME, file="", line=0)
_INTERPRETER: Final = re.compile(r"(?:.*/)?(?:lib)?python\d[^/]*")  # the program, or libpython3.12.so.1.0
_RUST: Final = re.compile(r"<.+ as .+>|(?:core|alloc)::")

# Kinds of frames as the page colours them.
PYTHON, C, MARKER, CYTHON, KERNEL_KIND, RUST, INTERPRETER = range(7)
_KINDS: Final = {
    FrameKind.PYTHON: PYTHON,
    FrameKind.MARKER: MARKER,
    FrameKind.CYTHON: CYTHON,
    FrameKind.KERNEL: KERNEL_KIND,
}
# Flags of frames as the page has them.
PROVEN, COUNTED, OPEN, HIDDEN, WRAPPER, INCOMPLETE = (1 << bit for bit in range(6))
_FLAGS: Final = {
    FrameFlag.PROVEN: PROVEN | HIDDEN,
    FrameFlag.COUNTED: COUNTED | HIDDEN,
    FrameFlag.OPEN: OPEN | HIDDEN,
    FrameFlag.MACHINERY: HIDDEN,
    FrameFlag.WRAPPER: WRAPPER,
    FrameFlag.INCOMPLETE: INCOMPLETE,
}


def content(capture: Capture, view: View, part: Part | None = None) -> str:
    """The page's data, of the whole recording or of a part. Raises CaptureError where the capture is damaged."""
    profile = part.profile if part else Profile.from_capture(capture, ALL)
    stacks = _bounded(profile)
    rows = timeline(capture, profile, stacks, part)
    packer = Packer()
    frames, places = _frames(profile, stacks)
    packer.add("stack.back", [i - caller if caller >= 0 else 0 for i, caller in enumerate(stacks.parent)])
    packer.add("stack.frame", [places[frame] for frame in stacks.frame], DELTA)
    strings = _add_frames(packer, frames)
    _add_rows(packer, rows)
    if rows.slice_us:
        _add_totals(packer, profile, stacks)
    threads = {thread: number for number, thread in enumerate(profile.threads)}
    waits = iter(()) if part else capture.gil_waits()  # they are told without a time
    _add_waits(packer, capture, waits, profile, stacks, threads)
    account = Account.from_capture(capture)
    processes = {process: number for number, process in enumerate(profile.processes)}
    lines = account.lines()
    if pruned := _pruned(stacks, profile):
        lines.append(f"{'pruned':<10}{pruned}")
    if rows.slice_us:
        lines.append(f"{'time':<10}{_told_coarsely(stacks, rows, len(profile.frames))}")
    return packer.text(
        {
            "facts": _facts(profile),
            "mode": shown(profile.mode),
            "durationUs": profile.duration_ns // 1000,
            "sliceUs": rows.slice_us,
            "pruned": pruned,
            "states": [int(state) for state in (State if view.idle else ACTIVE)],
            "internals": view.all_frames,
            "strings": strings,
            "processes": [
                {"pid": process.pid, "command": shown(" ".join(process.command))}
                for process in profile.processes.values()
            ],
            "threads": [
                {"name": shown(thread.name), "tid": thread.tid, "process": processes[thread.process]}
                for thread in profile.threads.values()
            ],
            "account": {
                "summary": account.summary,
                "seams": [account.counts[f"seams_{proof}"] for proof in ("proven", "counted", "open")],
                "spotless": not (account.lost or account.degraded or account.warnings),
                "lines": lines,
            },
            "sources": _sources(capture, frames),
        }
    )


def shown(text: str) -> str:
    """A name of the target as the page may show it: escaped, and of bounded length."""
    return escape(text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…")


def _bounded(profile: Profile) -> Prefix:
    """The stacks: fewer, where they would have too many totals."""
    most = MAX_STACKS
    while True:
        stacks = prefix(profile, most)
        if len(profile.totals) <= MAX_TOTALS or len(_totals(profile, stacks)) <= MAX_TOTALS:
            return stacks
        most //= 2


def _totals(profile: Profile, stacks: Prefix) -> dict[tuple[int, int, int], list[int]]:
    """What each (thread, state, stack) adds up to: us and ticks."""
    threads = {thread: number for number, thread in enumerate(profile.threads)}
    sums: dict[tuple[int, int, int], list[int]] = {}
    for total in profile.totals:
        one = sums.setdefault((threads[total.thread], total.state, stacks.place[total.stack]), [0, 0])
        one[0] += total.weight_ns // 1000
        one[1] += total.ticks
    return sums


def _frames(profile: Profile, stacks: Prefix) -> tuple[list[Frame], dict[int, int]]:
    """The frames that the stacks have, and where each of the profile's is among them."""
    places: dict[int, int] = {}
    frames: list[Frame] = []
    for number in stacks.frame:
        if number not in places:
            places[number] = len(frames)
            known = _EMPTY_STACK if number == EMPTY else PRUNED
            frames.append(profile.frames[number] if 0 <= number < len(profile.frames) else known)
    return frames, places


def _add_frames(packer: Packer, frames: list[Frame]) -> list[str]:
    """Adds the columns of the frames; returns the strings that they refer to."""
    strings: dict[str, int] = {}

    def number(text: str) -> int:
        return strings.setdefault(text, len(strings))

    packer.add("frame.function", [number(frame.function) for frame in frames], DELTA)
    packer.add("frame.file", [number(frame.file) for frame in frames])
    packer.add("frame.module", [number(frame.module) for frame in frames])
    packer.add("frame.kind", [kind_of(frame) for frame in frames])
    packer.add("frame.flags", [_flags(frame) for frame in frames])
    packer.add("frame.line", [_natural(frame.line) for frame in frames])
    packer.add("frame.first", [_natural(frame.first_line) for frame in frames])
    packer.add("frame.endLine", [_natural(frame.end_line) for frame in frames])
    packer.add("frame.column", [_natural(frame.column) for frame in frames])
    packer.add("frame.endColumn", [_natural(frame.end_column) for frame in frames])
    return [shown(text) for text in strings]


def _natural(number: int) -> int:
    return min(max(number, 0), 0x7FFFFFFF)


def _flags(frame: Frame) -> int:
    return reduce(or_, (bits for flag, bits in _FLAGS.items() if flag & frame.flags), 0)


def kind_of(frame: Frame) -> int:
    """Return the kind of code that a frame runs, as the page tells them apart."""
    if frame.kind in _KINDS:
        return _KINDS[frame.kind]
    if frame.flags & FrameFlag.MACHINERY or _INTERPRETER.fullmatch(frame.module):
        return INTERPRETER
    return RUST if frame.file.endswith(".rs") or _RUST.match(frame.function) else C


def _add_rows(packer: Packer, rows: Rows) -> None:
    packer.add("row.count", rows.count)
    ends = [start + weight for start, weight in zip(rows.start, rows.weight, strict=True)]
    at, gaps = 0, []
    for count in rows.count:
        last = 0  # of each thread, the first row counts from the recording's beginning
        for i in range(at, at + count):
            gaps.append(rows.start[i] - last)
            last = ends[i]
        at += count
    packer.add("row.gap", gaps, 1)
    packer.add("row.weight", rows.weight)
    packer.add("row.ticks", rows.ticks)
    packer.add("row.state", rows.state)
    packer.add("row.stack", rows.stack, DELTA)


def _add_totals(packer: Packer, profile: Profile, stacks: Prefix) -> None:
    totals = sorted(_totals(profile, stacks).items())
    packer.add("total.thread", [thread for (thread, _, _), _ in totals])
    packer.add("total.state", [state for (_, state, _), _ in totals])
    packer.add("total.stack", [stack for (_, _, stack), _ in totals], DELTA)
    packer.add("total.weight", [weight for _, (weight, _) in totals])
    packer.add("total.ticks", [ticks for _, (_, ticks) in totals])


def _add_waits(
    packer: Packer,
    capture: Capture,
    waits: Iterator[GilWait],
    profile: Profile,
    stacks: Prefix,
    threads: dict[int, int],
) -> None:
    """Who made whom wait for the GIL, by thread and stack. Stacks without time of their own become none: 0."""
    sums: dict[tuple[int, int, int, int], int] = {}
    for wait in waits:
        if {wait.waiter_stack, wait.holder_stack} - profile.nodes.keys():
            raise capture.damaged("a wait for the GIL has a stack that is not there")
        if {wait.waiter, wait.holder or wait.waiter} - profile.threads.keys():
            raise capture.damaged("a wait for the GIL has a thread that is not there")
        key = (
            threads[wait.waiter],
            stacks.place[profile.nodes[wait.waiter_stack]] + 1,
            threads[wait.holder] + 1 if wait.holder else 0,
            stacks.place[profile.nodes[wait.holder_stack]] + 1,
        )
        sums[key] = sums.get(key, 0) + wait.weight_ns // 1000
    for name, column in zip(("waiter", "waiterStack", "holder", "holderStack"), zip(*sums, strict=True), strict=False):
        packer.add(f"wait.{name}", column)
    if not sums:
        for name in ("waiter", "waiterStack", "holder", "holderStack"):
            packer.add(f"wait.{name}", [])
    packer.add("wait.weight", list(sums.values()))


def _sources(capture: Capture, frames: list[Frame]) -> list[dict[str, str | None]]:
    """The sources of files that frames name, as far as the page has room, the smallest first."""
    wanted = {frame.file for frame in frames if frame.line}
    found = [source for source in capture.sources() if source.file in wanted]
    left = MAX_SOURCES
    told = []
    for source in sorted(found, key=lambda each: len(each.text or "")):
        left -= len(source.text or "")
        too_much = Source(source.file, None, "left out of this page: its sources are too large")
        told.append(source if left >= 0 else too_much)
    return [{"file": shown(each.file), "text": each.text, "problem": shown(each.problem)} for each in told]


def _pruned(stacks: Prefix, profile: Profile) -> str:
    if not stacks.pruned:
        return ""
    return (
        f"{stacks.pruned:,} of {len(profile.stacks) - 1:,} stacks are too rare to be told apart here: "
        f"{share(stacks.pruned_ns, profile.weight_ns)} of the time ({duration(stacks.pruned_ns)}) is shown as [pruned]"
    )


def _told_coarsely(stacks: Prefix, rows: Rows, marker: int) -> str:
    coarse = sum(us for stack, us in zip(rows.stack, rows.weight, strict=True) if stacks.frame[stack] == marker)
    return (
        f"the order of time is kept to {duration(rows.slice_us * 1000)}; where a range of time is chosen, and on the "
        f"time line, {share(coarse, sum(rows.weight))} of the time is told of common callers only, as [pruned]"
    )


def _facts(profile: Profile) -> list[str]:
    """What was recorded, in a few words each."""
    processes = list(profile.processes.values())
    facts = [f"process {process.pid}" for process in processes[:1]]
    if len(processes) > 1:
        facts = [f"{len(processes):,} processes"]
    facts += sorted({shown(process.runtime) for process in processes if process.runtime})[:3]
    facts.append(f"{duration(profile.duration_ns)} at {profile.rate_hz:,} Hz, mode {shown(profile.mode)}")
    return facts
