"""The line that tells how a recording goes, while it goes."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

from weft.session import Progress, Watch

_PERIOD = 0.5  # seconds between two lines
_BAR = 30  # characters


class ProgressLine:
    """One line on a terminal, rewritten in place; nothing where the stream is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = stream.isatty()
        self._last: tuple[float, int] | None = None  # when, and how many samples there were
        self._next = 0.0
        self._reading_since: float | None = None  # symbols

    def __enter__(self) -> Watch | None:
        """What is to be called with how it stands; None: nobody looks."""
        return self._show if self._shown else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown and (self._last or self._reading_since is not None):
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _show(self, progress: Progress) -> None:
        """Show how it stands, if the line is old enough."""
        if progress.symbols:
            self._show_symbols(progress.elapsed_s, *progress.symbols)
            return
        if progress.elapsed_s < self._next or not progress.account:
            return
        self._next = progress.elapsed_s + _PERIOD
        taken = progress.account["samples_taken"]
        now = time.monotonic()
        rate = (taken - self._last[1]) / max(now - self._last[0], 1e-3) if self._last else 0.0
        self._last = (now, taken)
        parts = [f"{progress.elapsed_s:.0f} s", f"{taken:,} samples", f"{rate:,.0f}/s"]
        if late := progress.account["samples_late"]:
            parts.append(f"{late:,} late")
        if lost := sum(progress.losses.values()) - progress.losses.get("late", 0):
            parts.append(f"{lost:,} lost or degraded")
        if not progress.runtimes:
            parts.append("looking for Python")
        self._write(" · ".join(parts) + " · Ctrl-C ends")

    def _show_symbols(self, now_s: float, done: int, modules: int) -> None:
        """Show a bar, once it takes long."""
        if self._reading_since is None:
            self._reading_since = now_s
        if now_s - self._reading_since >= _PERIOD:
            filled = _BAR * done // modules
            self._write(f"reading symbols [{'#' * filled}{'-' * (_BAR - filled)}] {done} of {modules} modules")

    def _write(self, line: str) -> None:
        self._stream.write(f"\r\x1b[Kweft: {line}")
        self._stream.flush()
