"""docs/bench: what was measured, where and when, as JSON, tables and charts; and a history of medians."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median

from benchmarks.charts import draw
from benchmarks.results import Row

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "bench"
QUICK_FOLDER = ROOT / "build" / "bench"
HEAD = """# What was measured

Written by `python -m benchmarks`. Medians, with the least and the most of all rounds in brackets. In a round recorders
take turns, on one running program or each on one that was started anew, so that what else the machine does falls on all
alike; without brackets it is one recording. CPU is that of all processes of a recorder, and of its programs in the
kernel. Peak memory is what was resident of all of its processes; after a plus, what the kernel holds for it.
[truth.md](../truth.md) says what it means.
"""
HISTORY = ROOT / "benchmarks" / "history" / "runs.jsonl"
BUSY_LOAD = 1.0
CALM_S = 180


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
    absent: str = ""  # which interpreters are not there, and what stands for them

    @classmethod
    def here(cls, command: str, versions: list[str], absent: str) -> Machine:
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
            absent=absent,
        )

    def markdown(self) -> str:
        """What the page says of it."""
        busy = " (busy: only ratios mean something, and they not much)" if self.load > BUSY_LOAD else ""
        where = f"{self.cpu}, {self.cpus} CPUs, Linux {self.kernel}, load {self.load:.1f} at the start{busy}"
        lines = [
            f"Measured {self.date} by `{self.command}`, revision {self.revision}: {where};",
            f"{', '.join(self.versions)}.",
            *filter(None, [self.absent]),
        ]
        return "\n".join(lines) + "\n"


def calm() -> None:
    """Wait until the machine has little else to do, or for three minutes: to build and install leaves a load behind."""
    end = time.monotonic() + CALM_S
    while os.getloadavg()[0] > BUSY_LOAD and time.monotonic() < end:
        time.sleep(2)


@dataclass(frozen=True)
class Section:
    """The tables of one ROW of the command line, and the run that they come from."""

    machine: Machine
    rows: list[Row]


def kept(folder: Path) -> dict[str, Section]:
    """What was written before, by the names of rows."""
    try:
        sections = json.loads((folder / "results.json").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return {
        name: Section(Machine(**each["machine"]), [Row(**row) for row in each["rows"]])
        for name, each in sections.items()
    }


def write(sections: Mapping[str, Section], folder: Path) -> None:
    """All that has been measured so far, as JSON, and as Markdown with charts; each run is named before its tables."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in folder.glob("*.svg"):
        chart.unlink()
    document = {
        name: {"machine": asdict(section.machine), "rows": [_data(row) for row in section.rows]}
        for name, section in sections.items()
    }
    (folder / "results.json").write_text(
        json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8"
    )
    parts, machine = [HEAD], None
    for name, section in sections.items():
        if section.machine != machine:
            machine = section.machine
            parts.append(machine.markdown())
        parts += [_table(row, folder, f"{name}-{number}") for number, row in enumerate(section.rows, 1)]
        for file, text in (page for row in section.rows for page in row.pages.items()):
            (folder / file).write_text(text, "utf-8")
    (folder / "README.md").write_text("\n".join(parts), "utf-8")


def _data(row: Row) -> dict[str, object]:
    data = asdict(row)
    del data["pages"]
    return data


def _table(row: Row, folder: Path, name: str) -> str:
    images = [f"![{title}: {row.title}]({path.name})" for title, path in draw(row, folder, name)]
    return "\n".join([row.markdown(), *(f"{image}\n" for image in images)])


def remember(machine: Machine, rows: list[Row]) -> None:
    """One line of medians in the history, so that the effect of a change can be seen; of errors, their mean size."""
    HISTORY.parent.mkdir(parents=True, exist_ok=True)
    medians = {
        row.title: {
            name: dict(_remembered(key, values) for key, values in of.items() if values)
            for name, of in row.measured.items()
        }
        for row in rows
    }
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"machine": asdict(machine), "medians": medians}, ensure_ascii=False) + "\n")


def _remembered(key: str, values: Sequence[float]) -> tuple[str, float]:
    if key.endswith("_off"):  # errors, of all signs: their median says little
        return f"{key}_mean", fmean(map(abs, values))
    return key, median(values)
