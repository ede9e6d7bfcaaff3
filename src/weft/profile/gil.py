"""Who makes whom wait for the GIL, by function."""

from __future__ import annotations

from dataclasses import dataclass

from weft.capture import Capture
from weft.profile.tables import Profile
from weft.profile.transform import by_function
from weft.sample import FrameKind

Function = tuple[str, str, int]  # as by_function() gives it
PYTHON = (FrameKind.PYTHON, FrameKind.CYTHON)


@dataclass(frozen=True, slots=True)
class Blame:
    """A thread waited for the GIL in a function, while another thread held it in another function.

    Threads are Thread.ids. holder None: it is not known who held it; holder_function None: what it did is not known.
    """

    waiter: int
    waiter_function: Function | None
    holder: int | None
    holder_function: Function | None
    weight_ns: int


def blame(capture: Capture, profile: Profile) -> list[Blame]:
    """Return all waits that are known, the longest first; raises CaptureError where the capture is damaged."""
    sums: dict[tuple[int, Function | None, int, Function | None], int] = {}
    for wait in capture.gil_waits():
        if {wait.waiter_stack, wait.holder_stack} - profile.nodes.keys():
            raise capture.damaged("a wait for the GIL has a stack that is not there")
        if {wait.waiter, wait.holder or wait.waiter} - profile.threads.keys():
            raise capture.damaged("a wait for the GIL has a thread that is not there")
        waiter, holder = (_function(profile, stack) for stack in (wait.waiter_stack, wait.holder_stack))
        key = wait.waiter, waiter, wait.holder, holder
        sums[key] = sums.get(key, 0) + wait.weight_ns
    blames = [
        Blame(waiter, waiter_function, holder or None, holder_function, weight_ns)
        for (waiter, waiter_function, holder, holder_function), weight_ns in sums.items()
    ]
    return sorted(blames, key=lambda each: -each.weight_ns)


def _function(profile: Profile, stack: int) -> Function | None:
    """The innermost Python function of a stack of the capture; if there is none, its innermost one."""
    frames = [profile.frames[frame] for frame in reversed(profile.stacks.path(profile.nodes[stack]))]
    frame = next((frame for frame in frames if frame.kind in PYTHON), frames[0] if frames else None)
    return by_function(frame) if frame else None
