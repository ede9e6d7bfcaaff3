"""A capture as what the page reads. docs/design/0007-the-page.md lists it; pack.py tells how it is packed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any, Final

from weft.capture import Capture, GilWait, Source
from weft.profile.names import NO_FRAME, escape
from weft.profile.quality import Account
from weft.profile.tables import ACTIVE, EMPTY, Profile, View
from weft.profile.units import BYTES, duration, share
from weft.profile.windows import Part
from weft.report.html.focus import Focus, Numbering, looked_at
from weft.report.html.pack import DELTA, Packer
from weft.report.html.prefix import MAX_STACKS, PRUNED, Prefix, prefix
from weft.report.html.timeline import Rows, timeline
from weft.sample import Frame, FrameFlag, FrameKind, State

ALL: Final = View(idle=True, all_frames=True)  # of a part's profile, too: the page leaves out by itself
LONGEST_NAME: Final = 1000  # characters; a longer one is cut, and still told apart from others with the same beginning
MAX_TOTALS: Final = 2_000_000  # of thread, stack and state
MAX_SOURCES: Final = 4 << 20  # characters of all sources in the page
SERVED_LEVEL: Final = 1  # of zlib: to a browser on the same machine, time is dearer than bytes
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
    packer, head = _packed(capture, profile, view, part, Numbering(), Focus(), MAX_SOURCES)
    return packer.text(head)


def served(
    capture: Capture, profile: Profile, view: View, numbering: Numbering, focus: Focus, more: Mapping[str, Any]
) -> bytes:
    """The data of a page that asks for it: told apart most finely where it looks, and without the texts of sources.

    profile: the capture's, of the view ALL.
    more: what else the head is to say.
    Raises CaptureError where the capture is damaged.
    """
    packer, head = _packed(capture, profile, view, None, numbering, focus, -1)
    return packer.pack({**head, **more}, SERVED_LEVEL)


def _packed(
    capture: Capture,
    profile: Profile,
    view: View,
    part: Part | None,
    numbering: Numbering,
    focus: Focus,
    room: int,
) -> tuple[Packer, dict[str, Any]]:
    """The columns, and the head. room: characters for sources; -1: they are asked for one by one."""
    stacks = _bounded(profile, numbering, focus)
    rows = timeline(capture, profile, stacks, part, focus.window_us)
    packer = Packer()
    packer.add("stack.back", [i - caller if caller >= 0 else 0 for i, caller in enumerate(stacks.parent)])
    packer.add("stack.frame", _stack_frames(profile, stacks, numbering), DELTA)
    frames = list(numbering.frames)
    strings = _add_frames(packer, frames, numbering, _allocators(profile))
    _add_rows(packer, rows, of_moments=profile.unit is BYTES)
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
        lines.append(f"{'time':<10}{_told_coarsely(profile, stacks, rows)}")
    return packer, {
        "facts": _facts(profile),
        "mode": shown(profile.mode),
        "unit": profile.unit.name,
        "durationUs": profile.duration_ns // 1000,
        "sliceUs": rows.slice_us,
        "spacingUs": profile.spacing_ns // 1000,
        "fine": rows.fine,
        "pruned": pruned,
        "prunedFrame": numbering.frames.get(PRUNED, -1),
        "states": [int(state) for state in (State if view.idle else ACTIVE)],
        "internals": view.all_frames,
        "strings": strings,
        "processes": [
            {"pid": process.pid, "command": shown(" ".join(process.command))} for process in profile.processes.values()
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
        "sources": _sources(capture, frames, room),
    }


def shown(text: str) -> str:
    """A name of the target as the page may show it: escaped, and of bounded length."""
    return escape(text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…")


def _bounded(profile: Profile, numbering: Numbering, focus: Focus) -> Prefix:
    """The stacks: fewer, where they would have too many totals."""
    inside = None
    if focus.path and len(profile.stacks) > 1:
        known = list(numbering.frames)
        inside = looked_at(profile, [known[number] for number in focus.path])
    most = MAX_STACKS
    while True:
        stacks = prefix(profile, most, inside=inside)
        if len(profile.totals) <= MAX_TOTALS or len(_totals(profile, stacks)) <= MAX_TOTALS:
            return stacks
        most //= 2


def _totals(profile: Profile, stacks: Prefix) -> dict[int, list[int]]:
    """What each thread, state and stack, in one number, adds up to: us (or bytes) and ticks."""
    threads = {thread: number * len(State) for number, thread in enumerate(profile.threads)}
    size, place = len(stacks.parent), stacks.place
    grain = profile.unit.grain
    sums: dict[int, list[int]] = {}
    for _, thread, node, state, weight_ns, ticks in profile.totals:
        key = (threads[thread] + state) * size + place[node]
        if key in sums:
            one = sums[key]
            one[0] += weight_ns // grain
            one[1] += ticks
        else:
            sums[key] = [weight_ns // grain, ticks]
    return sums


def _stack_frames(profile: Profile, stacks: Prefix, numbering: Numbering) -> list[int]:
    """The number of each stack's innermost frame."""
    numbers: dict[int, int] = {}
    for frame in stacks.frame:
        if frame not in numbers:
            known = _EMPTY_STACK if frame == EMPTY else PRUNED
            numbers[frame] = numbering.frame(profile.frames[frame] if 0 <= frame < len(profile.frames) else known)
    return [numbers[frame] for frame in stacks.frame]


def _allocators(profile: Profile) -> set[Frame]:
    """Of allocations, the innermost native frames: where libc was asked for memory tells less than who asked."""
    if profile.unit is not BYTES:
        return set()
    nodes = {total.stack for total in profile.totals if profile.stacks.parent[total.stack]}
    innermost = {profile.frames[profile.stacks.frame[node]] for node in nodes}
    return {frame for frame in innermost if frame.kind is FrameKind.NATIVE}


def _add_frames(packer: Packer, frames: list[Frame], numbering: Numbering, hidden: set[Frame]) -> list[str]:
    """Adds the columns of the frames; returns the strings that they refer to."""
    number = numbering.string
    packer.add("frame.function", [number(frame.function) for frame in frames], DELTA)
    packer.add("frame.file", [number(frame.file) for frame in frames])
    packer.add("frame.module", [number(frame.module) for frame in frames])
    packer.add("frame.kind", [kind_of(frame) for frame in frames])
    packer.add("frame.flags", [_flags(frame) | HIDDEN * (frame in hidden) for frame in frames])
    packer.add("frame.line", [_natural(frame.line) for frame in frames])
    packer.add("frame.first", [_natural(frame.first_line) for frame in frames])
    packer.add("frame.endLine", [_natural(frame.end_line) for frame in frames])
    packer.add("frame.column", [_natural(frame.column) for frame in frames])
    packer.add("frame.endColumn", [_natural(frame.end_column) for frame in frames])
    return [shown(text) for text in numbering.strings]


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


def _add_rows(packer: Packer, rows: Rows, *, of_moments: bool) -> None:
    packer.add("row.count", rows.count)
    ends = [start if of_moments else start + weight for start, weight in zip(rows.start, rows.weight, strict=True)]
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
    sums = _totals(profile, stacks)
    keys = sorted(sums)
    rest, size = [key // len(stacks.parent) for key in keys], len(stacks.parent)
    packer.add("total.thread", [key // len(State) for key in rest])
    packer.add("total.state", [key % len(State) for key in rest])
    packer.add("total.stack", [key % size for key in keys], DELTA)
    packer.add("total.weight", [sums[key][0] for key in keys])
    packer.add("total.ticks", [sums[key][1] for key in keys])


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


def _sources(capture: Capture, frames: list[Frame], room: int) -> list[dict[str, Any]]:
    """The sources of files that frames name, the smallest first, as there is room; -1: whether they are there."""
    wanted = {frame.file for frame in frames if frame.line}
    found = [source for source in capture.sources() if source.file in wanted]
    if room < 0:
        return [
            {"file": shown(each.file), "text": None, "problem": shown(each.problem), "asked": each.text is not None}
            for each in found
        ]
    told = []
    for source in sorted(found, key=lambda each: len(each.text or "")):
        room = max(room - len(source.text or ""), -1)
        too_much = Source(source.file, None, "left out of this page: its sources are too large")
        told.append(source if room >= 0 else too_much)
    return [{"file": shown(each.file), "text": each.text, "problem": shown(each.problem)} for each in told]


def _pruned(stacks: Prefix, profile: Profile) -> str:
    if not stacks.pruned:
        return ""
    part, unit = stacks.pruned_ns, profile.unit
    return (
        f"{stacks.pruned:,} of {len(profile.stacks) - 1:,} stacks are too rare to be told apart here: "
        f"{share(part, profile.weight_ns)} of the {unit.whole} ({unit.text(part)}) is shown as [pruned]"
    )


def _told_coarsely(profile: Profile, stacks: Prefix, rows: Rows) -> str:
    marker = len(profile.frames)
    coarse = sum(weight for stack, weight in zip(rows.stack, rows.weight, strict=True) if stacks.frame[stack] == marker)
    return (
        f"the order of time is kept to {duration(rows.slice_us * 1000)}; where a range of time is chosen, and on the "
        f"time line, {share(coarse, sum(rows.weight))} of the {profile.unit.whole} is told of common callers only, "
        "as [pruned]"
    )


def _facts(profile: Profile) -> list[str]:
    """What was recorded, in a few words each."""
    processes = list(profile.processes.values())
    facts = [f"process {process.pid}" for process in processes[:1]]
    if len(processes) > 1:
        facts = [f"{len(processes):,} processes"]
    facts += sorted({shown(process.runtime) for process in processes if process.runtime})[:3]
    pace = f" at {profile.pace}" if profile.pace else ""
    facts.append(f"{duration(profile.duration_ns)}{pace}, mode {shown(profile.mode)}")
    return facts
