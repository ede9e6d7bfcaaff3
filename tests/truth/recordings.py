"""Recordings for tests of truth: made by the product's own main path, read back as plain stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weft_command import run_weft

from weft import Capture, Collector, Mode, Options, Profile, record_process
from weft.profile.tables import View
from weft.sample import Frame, FrameKind, State

# Of native stacks: code whose table is still being made, and threads that have moved since their registers were told.
NATIVE_LOSSES = ("no-unwind-info", "no-registers")


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
    collector: Collector = Collector.PTRACE,
    subprocesses: bool = False,
) -> Path:
    """Record a running process; the path of the capture."""
    path = folder / f"{pid}.weft"
    record_process(pid, path, Options(rate_hz, seconds, mode, collector, subprocesses))
    return path


def record_as(
    prefix: Sequence[str],
    pid: int,
    folder: Path,
    *,
    rate_hz: int,
    seconds: float,
    mode: Mode = Mode.WALL,
    collector: Collector = Collector.PTRACE,
) -> Path:
    """The same, by a weft that another command runs."""
    path = folder / f"{pid}.weft"
    how = ["-r", rate_hz, "--mode", mode.name.lower(), "--collector", collector.value]
    run = run_weft("record", "-p", pid, "-d", seconds, *how, "-o", path, prefix=prefix)
    assert run.returncode == 0, run.stderr
    return path


def woven_stacks_of(path: Path) -> list[Sampled]:
    """Every distinct stack of a capture, blocked ones and all frames included."""
    with Capture(path) as capture:
        profile = Profile.from_capture(capture, View(idle=True, all_frames=True))
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


def stacks_of(path: Path) -> list[Sampled]:
    """The same, their Python frames alone."""
    return [
        replace(sampled, frames=tuple(frame for frame in sampled.frames if frame.kind is FrameKind.PYTHON))
        for sampled in woven_stacks_of(path)
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
