"""Recordings for tests of truth: made by the product's own main path, read back as plain stacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft import Capture, Collector, Mode, Options, Profile, record_process
from weft.profile.tables import View
from weft.sample import Frame, State


@dataclass(frozen=True, slots=True)
class Sampled:
    """A stack, root first, with what it stands for."""

    thread: int
    state: State
    frames: tuple[Frame, ...]
    ticks: int
    weight_ns: int


def record(
    pid: int,
    folder: Path,
    *,
    rate_hz: int,
    seconds: float,
    mode: Mode = Mode.WALL,
    collector: Collector = Collector.AUTO,
    subprocesses: bool = False,
) -> Path:
    """Record a running process; the path of the capture."""
    path = folder / f"{pid}.weft"
    record_process(pid, path, Options(rate_hz, seconds, mode, collector, subprocesses))
    return path


def stacks_of(path: Path) -> list[Sampled]:
    """Every distinct stack of a capture, blocked ones included."""
    with Capture(path) as capture:
        profile = Profile.from_capture(capture, View(idle=True))
    return [
        Sampled(
            total.thread,
            total.state,
            tuple(profile.frames[frame] for frame in profile.stacks.path(total.stack)),
            total.ticks,
            total.weight_ns,
        )
        for total in profile.totals
    ]


def account_of(path: Path) -> dict[str, int]:
    """The honest account of a capture."""
    with Capture(path) as capture:
        return capture.account()


def losses_of(path: Path) -> dict[str, int]:
    """How many samples or stacks were lost or degraded, by reason."""
    losses: dict[str, int] = {}
    with Capture(path) as capture:
        for loss in capture.losses():
            losses[loss.reason] = losses.get(loss.reason, 0) + loss.count
    return losses
