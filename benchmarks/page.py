"""docs/bench: what was measured, where and when, as JSON, tables and charts; and a history of medians."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks.charts import draw
from benchmarks.results import Row

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "bench"
HISTORY = ROOT / "benchmarks" / "history" / "runs.jsonl"


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
    """All that has been measured so far, as JSON, and as Markdown with charts."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for chart in FOLDER.glob("*.svg"):
        chart.unlink()
    document = {"machine": asdict(machine), "rows": [_data(row) for row in rows]}
    (FOLDER / "results.json").write_text(
        json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8"
    )
    (FOLDER / "README.md").write_text("\n".join([machine.markdown(), *map(_section, rows, count(1))]), "utf-8")
    for row in rows:
        for name, text in row.pages.items():
            (FOLDER / name).write_text(text, "utf-8")


def _data(row: Row) -> dict[str, object]:
    data = asdict(row)
    del data["pages"]
    return data


def _section(row: Row, number: int) -> str:
    images = [f"![{title}: {row.title}]({path.name})" for title, path in draw(row, FOLDER, number)]
    return "\n".join([row.markdown(), *(f"{image}\n" for image in images)])


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
