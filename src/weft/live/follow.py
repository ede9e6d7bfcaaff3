"""Reads of a capture what has come since the last look, and no more."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from weft.capture import Capture, GilWait, Place, Process, Runs, Standing, Thread
from weft.errors import NotACaptureError
from weft.profile.gil import estimated
from weft.profile.quality import Account
from weft.sample import Frame


@dataclass(frozen=True, slots=True)
class News:
    """What a look has found. Times are CLOCK_MONOTONIC of the recording machine, in ns."""

    meta: dict[str, str | int]
    start_ns: int
    written_ns: int
    ended: bool  # nothing more will come
    anew: bool  # frames and stacks are all there are, not only those that have come
    frames: list[tuple[int, tuple[Frame, ...]]]
    stacks: list[tuple[int, int, int]]
    totals: list[tuple[int, int, int, int, int]]  # thread, stack, state, weight_ns, ticks of all that has come
    late_runs: list[
        tuple[int, Runs]
    ]  # of it, by thread: the runs that end, or whose batch does, after what was asked for
    standing: list[Standing]
    threads: dict[int, Thread]
    processes: dict[int, Process]
    account: Account
    nameless: list[Place]
    modules: dict[int, tuple[str, str | None]] = field(default_factory=dict)


class Follower:
    """Looks at a capture again and again. Between looks it holds nothing open, so that the recorder can finish it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._frame = self._stack = self._batch = 0  # the last that were read
        self._looked = self._ended = False

    @property
    def has_ended(self) -> bool:
        """Whether all has been read of a recording that has ended."""
        return self._ended

    def look(self, window_ns: int, since_ns: int | None = None) -> News:
        """What has come, with the runs of the last window_ns, or (since_ns) from a time on. CaptureError."""
        with Capture(self.path, checked=self._looked) as capture:
            try:
                news = self._read(capture, window_ns, since_ns)
            except (TypeError, ValueError, OverflowError) as error:  # values that are checked at the first look only
                raise capture.damaged(error) from error
        self._looked = True
        self._ended = news.ended
        return news

    def gil_waits(self, window_ns: int) -> tuple[list[GilWait], bool]:
        """Who made whom wait for the GIL so far: as many rows as there are pairs of stacks; whether it is estimated.

        Where the capture does not tell it, it is estimated for the last window_ns. CaptureError.
        """
        with Capture(self.path, checked=True) as capture:
            waits = list(capture.gil_waits())
            are_estimated = not waits and capture.meta.get("mode") != "gil"
            if are_estimated:
                since = max(capture.start_ns, capture.written_ns - window_ns)
                processes = {thread.id: thread.process for thread in capture.threads()}
                waits = estimated(capture.late_runs(0, since), processes, since)
        last = self._stack
        return [wait for wait in waits if wait.waiter_stack <= last and wait.holder_stack <= last], are_estimated

    def stacks(self) -> list[tuple[int, int, int]]:
        """All stacks that were read, as they are told now. CaptureError."""
        with Capture(self.path, checked=True) as capture:
            return [row for row in capture.stacks() if row[0] <= self._stack]

    def _read(self, capture: Capture, window_ns: int, since_ns: int | None) -> News:
        ended = "end_ns" in capture.meta
        anew = ended and self._looked  # the names of native frames have come
        since = max(0, capture.written_ns - window_ns) if since_ns is None else since_ns
        known_frames, known_stacks = (0, 0) if anew else (self._frame, self._stack)
        news = News(
            meta=capture.meta,
            start_ns=capture.start_ns,
            written_ns=capture.written_ns,
            ended=ended,
            anew=anew,
            frames=list(capture.frames(known_frames)),
            stacks=list(capture.stacks(known_stacks)),
            totals=list(capture.totals(self._batch)),
            late_runs=list(capture.late_runs(self._batch, since)),
            standing=list(capture.standing()),
            threads={thread.id: thread for thread in capture.threads()},
            processes={process.id: process for process in capture.processes()},
            account=Account.from_capture(capture),
            nameless=list(capture.places(known_frames)),
            modules=capture.modules(),
        )
        if any(run.thread not in news.threads for run in news.standing):
            raise NotACaptureError(f"{self.path} is damaged: a thread that stands still is not there")
        self._frame = max((number for number, _ in news.frames), default=self._frame)
        self._stack = max((number for number, _, _ in news.stacks), default=self._stack)
        self._batch = capture.last_batch()
        return news
