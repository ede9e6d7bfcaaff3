"""What rows have found: lines to read, and every single figure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol, TypeVar

from interpreters import Interpreter

from benchmarks.peers import Peer, PeerFailedError, Run

# What a recorder, or a program that it needs, may fail with; the rest is a mistake of the bench's own.
FAILURES = (PeerFailedError, OSError, subprocess.SubprocessError)


@dataclass(frozen=True)
class Settings:
    """How long to measure."""

    seconds: float  # of one recording
    rounds: int  # recordings of each kind
    quick: bool

    def progress(self, what: str) -> None:
        """Say on stderr what is being measured."""
        print(f"bench: {what}", file=sys.stderr, flush=True)


class Named(Protocol):
    """What a line is about."""

    @property
    def name(self) -> str:
        """As it is told."""


Measured = Mapping[str, Sequence[float]]  # by what it is, in each round
Found = TypeVar("Found")


@dataclass
class Row:
    """A table: lines by their name, as they are read and as they were measured."""

    title: str
    columns: Sequence[str]
    lines: dict[str, list[str]] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # who could not be measured, and why
    notes: list[str] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)  # files with more, by their names

    def add(self, name: str, cells: list[str], measured: Measured) -> None:
        """A line."""
        assert len(cells) == len(self.columns)
        self.lines[name] = cells
        self.measured[name] = measured

    def is_missing(self, peer: Peer, interpreter: Interpreter) -> bool:
        """Whether a peer cannot record this interpreter here, which is told beneath the table then."""
        if why := peer.missing(interpreter):
            self.missing[peer.name] = why
        return bool(why)

    @contextmanager
    def trying(self, peer: Named, settings: Settings, what: str = "") -> Iterator[None]:
        """For measuring a peer: of one that cannot, or fails, that is told beneath the table, and the others go on."""
        settings.progress(f"{self.title}: {peer.name}{what}")
        try:
            yield
        except FAILURES as error:
            self.missing[peer.name + what] = str(error)

    def take_turns(
        self, seen: Mapping[Peer, Found], measure: Callable[[Peer, Found], None], settings: Settings, what: str = ""
    ) -> None:
        """One round: `measure` adds a recording by each peer to what was found of it, until the peer has failed."""
        for peer, found in seen.items():
            if peer.name + what not in self.missing:
                with self.trying(peer, settings, what):
                    measure(peer, found)

    def markdown(self) -> str:
        """The table, and what is to be said of it."""
        lines = [f"## {self.title}", ""]
        if self.lines:
            lines += [_table_line(["", *self.columns]), _table_line(["---", *("---:" for _ in self.columns)])]
            lines += [_table_line([name, *cells]) for name, cells in self.lines.items()]
            lines.append("")
        lines += [f"- {note}" for note in self.notes]
        lines += [f"- {name} was not measured, or not in every round: {why}." for name, why in self.missing.items()]
        return "\n".join(lines).rstrip() + "\n"


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float], unit: str) -> str:
    """The median, and the range in brackets: 39.8 (38.1 to 44.0) µs."""
    digits = 3 if max(map(abs, values)) < 1 else 1
    middle, least, most = (f"{value:.{digits}f}" for value in (median(values), min(values), max(values)))
    alone = f"{middle} {unit}".strip()
    return alone if len(values) == 1 else f"{middle} ({least} to {most}) {unit}".strip()


def micros(values: Sequence[float | None]) -> str:
    """The median of those that are known, in µs."""
    known = [value for value in values if value is not None]
    return f"{median(known) * 1e6:.1f} µs" if known else "-"


def told(value: int | None) -> str:
    """A count, if it is known."""
    return "-" if value is None else f"{value:,}"


def in_all(values: Sequence[int | None]) -> str:
    """The sum of counts of several recordings, if they are known."""
    known = [value for value in values if value is not None]
    return told(sum(known) if known else None)


def memory_of(runs: Sequence[Run]) -> str:
    """The median of what was resident at most; and of what the kernel holds for the recorder."""
    resident, of_kernel = (
        median(values) / 1e6 for values in zip(*((r.peak_bytes, r.kernel_bytes) for r in runs), strict=True)
    )
    return f"{resident:.0f} MB" + (f" + {of_kernel:.0f} MB" if of_kernel else "")
