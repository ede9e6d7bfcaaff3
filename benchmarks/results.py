"""What rows have found: as JSON with every single figure, and as tables to read."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.peers import Peer, PeerFailedError

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "bench"
HISTORY = ROOT / "benchmarks" / "history" / "runs.jsonl"


@dataclass(frozen=True)
class Settings:
    """How long to measure."""

    seconds: float  # of one recording
    rounds: int  # recordings of each kind
    quick: bool

    def progress(self, what: str) -> None:
        """Say on stderr what is being measured."""
        print(f"bench: {what}", file=sys.stderr, flush=True)


Measured = Mapping[str, Sequence[float]]  # by what it is, in each round


@dataclass
class Row:
    """A table: lines by their name, as they are read and as they were measured."""

    title: str
    columns: Sequence[str]
    lines: dict[str, list[str]] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # who could not be measured, and why
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, cells: list[str], measured: Measured) -> None:
        """A line."""
        assert len(cells) == len(self.columns)
        self.lines[name] = cells
        self.measured[name] = measured

    @contextmanager
    def trying(self, peer: Peer, settings: Settings, what: str = "") -> Iterator[None]:
        """For measuring a peer: of one that cannot, or fails, that is told beneath the table, and the others go on."""
        settings.progress(f"{self.title}: {peer.name}{what}")
        try:
            yield
        except PeerFailedError as error:
            self.missing[peer.name + what] = str(error)

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


@dataclass(frozen=True)
class Machine:
    """Where and when it was measured."""

    cpu: str
    cpus: int
    kernel: str
    date: str
    revision: str
    command: str
    load: float  # when it began
    versions: list[str]

    @classmethod
    def here(cls, command: str, versions: list[str]) -> Machine:
        """Of this machine, now."""
        model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
        return cls(
            cpu=model[0].partition(":")[2].strip() if model else platform.machine(),
            cpus=os.cpu_count() or 0,
            kernel=platform.release(),
            date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            revision=subprocess.run(git, check=False, capture_output=True, text=True).stdout.strip() or "unknown",
            command=command,
            load=os.getloadavg()[0],
            versions=versions,
        )

    def markdown(self) -> str:
        """The head of the page."""
        where = f"{self.cpu}, {self.cpus} CPUs, Linux {self.kernel}, load {self.load:.1f} at the start"
        return f"""# What was measured

Written by `{self.command}`. Medians, with the least and the most of all rounds in brackets; recorders took turns on one
running program, so that what else the machine did fell on all alike. [truth.md](../truth.md) says what it means.

{self.date}, revision {self.revision}; {where}; {", ".join(self.versions)}.
"""


def write(machine: Machine, rows: list[Row]) -> None:
    """All that has been measured so far, as JSON and Markdown."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = {"machine": asdict(machine), "rows": [asdict(row) for row in rows]}
    (FOLDER / "results.json").write_text(
        json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8"
    )
    (FOLDER / "README.md").write_text("\n".join([machine.markdown(), *(row.markdown() for row in rows)]), "utf-8")


def remember(machine: Machine, rows: list[Row]) -> None:
    """One line of medians in the history, so that the effect of a change can be seen."""
    HISTORY.parent.mkdir(parents=True, exist_ok=True)
    medians = {
        row.title: {
            name: {key: median(values) for key, values in of.items() if values} for name, of in row.measured.items()
        }
        for row in rows
    }
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"machine": asdict(machine), "medians": medians}, ensure_ascii=False) + "\n")


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
