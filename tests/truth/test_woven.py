"""Woven stacks of a target whose Python frames tell by their names which C function has called each of them.

Nothing of the expectation comes from weft: `via_sorted` can only be called by a sort, and `descend` only by Python.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from interpreters import Interpreter
from recordings import account_of, record, woven_stacks_of
from running import StartTarget

from weft.sample import SEAM, Frame, FrameFlag, FrameKind

RATE_HZ = 2000
SECONDS = float(os.environ.get("WEFT_WOVEN_SECONDS", "3"))

# The functions of CPython 2.7 to 3.15 and of the C library that call via_X, and nothing else of the target.
CALLERS = {
    "sorted": r"list_?sort\w*|builtin_sorted\w*",
    "map": r"map_next|builtin_map",
    "reduce": r"_?functools_reduce\w*",
    "re": r"pattern_subx?|_sre_SRE_Pattern_sub\w*",
    "qsort": r"\w*qsort\w*",
    "lt": r"slot_tp_richcompare|half_richcompare",
    "next": r"slot_tp_iternext|call_method",  # which the former ends with, and jumps to
    "call": r"slot_tp_call",
    "getattr": r"slot_tp_getattr_hook|call_attribute",
    "gen": r"builtin_next",
}


def calls(frames: tuple[Frame, ...]) -> Iterator[tuple[str, tuple[Frame, ...]]]:
    """The name of each Python frame, and the native frames between it and its caller, outermost first."""
    between: list[Frame] = []
    for frame in frames:
        if frame.kind is FrameKind.PYTHON:
            # From 3.11 on a generator's frame is there, in its maker's activation, while the generator is made.
            being_made = frame.function == "via_gen" and FrameFlag.INCOMPLETE in frame.flags and not between
            yield "via_direct" if being_made else frame.function.rpartition(".")[2], tuple(between)
            between = []
        elif not frame.flags & SEAM:
            between.append(frame)


def kinds_of(between: tuple[Frame, ...]) -> set[str]:
    """Whose callers are among these."""
    names = {re.sub(r"\.\w+(\.\d+)?", "", frame.function) for frame in between}
    found = {kind for kind, pattern in CALLERS.items() if any(re.fullmatch(pattern, name) for name in names)}
    return found - {"gen"} if "next" in found else found  # builtin next calls both


def test_woven(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN Python that calls C that calls Python, nested by chance THEN between each two Python frames lie the native
    frames of that call, and no others."""
    target = start_target(interpreter, "woven.py", 60)
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS)
    account = account_of(path)
    places: dict[tuple[tuple[str, str], ...], set[str]] = {}
    seen = set()
    wrong = []
    for sampled in woven_stacks_of(path):
        if any(frame.kind is FrameKind.MARKER for frame in sampled.frames):
            continue  # counted below
        for name, between in [*calls(sampled.frames)][1:]:
            kind = name.removeprefix("via_") if name.startswith("via_") and name != "via_direct" else "python"
            seen.add(kind)
            if not interpreter.stripped and kinds_of(between) != {kind} - {"python"}:
                wrong.append((name, [frame.function for frame in between]))
            # Without symbols: the same calls lie between the same kinds of frames only.
            places.setdefault(tuple((frame.function, frame.file) for frame in between), set()).add(kind)
    assert not wrong, wrong[:5]
    assert not [kinds for kinds in places.values() if len(kinds) > 1]
    assert seen == {"python", *CALLERS}
    assert account["native_truncated"] <= 0.02 * account["samples_taken"]
    woven = account["samples_taken"] - account["native_truncated"]
    assert woven > 100 * SECONDS
    assert account["seams_counted"] == 0
    print(
        f"{interpreter.name}: {woven:,} woven, {account['seams_proven']:,} seams proven, {account['seams_open']} open"
    )
