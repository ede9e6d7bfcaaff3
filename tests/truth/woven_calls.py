"""What the names of a target's functions tell of its woven stacks: `via_X` is called by the C function X alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from recordings import Sampled

from weft.sample import SEAM, Frame, FrameFlag, FrameKind

# The functions of CPython 2.7 to 3.15 and of the C library that call via_X, and nothing else of the target.
CALLERS = {
    "sorted": r"list_?sort\w*|builtin_sorted\w*",
    "map": r"map_next|builtin_map",
    "reduce": r"_?functools_reduce\w*",
    "re": r"pattern_subx?|_sre_SRE_Pattern_sub\w*",
    "qsort": r"\w*qsort\w*",
    "lt": r"slot_tp_richcompare|half_richcompare",
    "next": r"slot_tp_iternext|call_method",  # which the former ends with, and jumps to; slot_tp_call may do so, too
    "call": r"slot_tp_call",
    "getattr": r"(_Py_)?slot_tp_getattr_hook|call_attribute",
    "gen": r"builtin_next",
}


@cache
def _is_seam(flags: int) -> bool:
    return bool(flags & SEAM)


def calls(frames: tuple[Frame, ...]) -> Iterator[tuple[str, tuple[Frame, ...]]]:
    """The name of each Python frame, and the native frames between it and its caller, outermost first."""
    between: list[Frame] = []
    for frame in frames:
        if frame.kind is FrameKind.PYTHON:
            # From 3.11 on a generator's frame is there, in its maker's activation, while the generator is made.
            being_made = frame.function == "via_gen" and FrameFlag.INCOMPLETE in frame.flags and not between
            yield "via_direct" if being_made else frame.function.rpartition(".")[2], tuple(between)
            between = []
        elif not _is_seam(frame.flags):
            between.append(frame)


def kind_of(name: str) -> str:
    """What calls this function: a key of CALLERS, or "python"."""
    return name.removeprefix("via_") if name.startswith("via_") and name != "via_direct" else "python"


@cache
def _kinds_with(function: str) -> set[str]:
    name = re.sub(r"\.\w+(\.\d+)?", "", function)
    return {kind for kind, pattern in CALLERS.items() if re.fullmatch(pattern, name)}


def kinds_of(between: tuple[Frame, ...]) -> set[str]:
    """Whose callers are among these."""
    found = set().union(*(_kinds_with(frame.function) for frame in between))
    if "next" in found:
        # builtin_next calls both kinds of iterators; where it is not, it was slot_tp_call.
        return found - {"gen"} if "gen" in found else found - {"next"} | {"call"}
    return found


def wrong_calls(frames: tuple[Frame, ...]) -> list[tuple[str, list[str]]]:
    """The functions that do not lie behind the C function that calls them, and what they lie behind."""
    return [
        (name, [frame.function for frame in between])
        for name, between in [*calls(frames)][1:]
        if kinds_of(between) != {kind_of(name)} - {"python"}
    ]


def has_gap(frames: tuple[Frame, ...]) -> bool:
    """Whether it says itself that native frames are missing within it, or Python frames at its end."""
    return any(frame.kind is FrameKind.MARKER for frame in frames)


@cache
def _is_doubtful(flags: int) -> bool:
    return bool(flags & (FrameFlag.COUNTED | FrameFlag.OPEN))


def has_doubt(frames: tuple[Frame, ...]) -> bool:
    """Whether it says of a seam that it is not proven."""
    return any(_is_doubtful(frame.flags) for frame in frames)


def is_proven(sampled: Sampled) -> bool:
    """Whether nothing is missing, and each seam is proven."""
    return not has_gap(sampled.frames) and not has_doubt(sampled.frames)


def share(stacks: Iterable[Sampled], holds: Callable[[Sampled], bool]) -> float:
    """Of the samples, how many have such a stack."""
    counts = [(sampled.ticks, holds(sampled)) for sampled in stacks]
    return sum(ticks for ticks, held in counts if held) / sum(ticks for ticks, _ in counts)
