"""How figures of the bench went from run to run: python -m benchmarks.history [WORD ...]

Shown are those whose table, line and measure have all the words between them: python -m benchmarks.history cost bpf
steady. Without words: the runs, and what was measured. Medians; a run is told by its date, revision and machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.page import HISTORY


def runs(path: Path) -> list[dict[str, Any]]:
    """One a line, oldest first."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def figures(run: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """All of a run, by table, line and measure."""
    for table, lines in run["medians"].items():
        for line, measures in lines.items():
            for measure, value in measures.items():
                yield f"{table} | {line} | {measure}", value


def told(found: list[dict[str, Any]], words: list[str]) -> str:
    """A paragraph a figure, a line a run that has it: when, of what, on which machine and how busy."""
    courses: dict[str, list[str]] = {}
    for run in found:
        machine = run["machine"]
        for name, value in figures(run):
            if all(word.lower() in name.lower() for word in words):
                where = f"{machine['cpu']}, load {machine['load']:.1f}"
                line = f"  {machine['date']}  {machine['revision']:<20}  {value:>12.5g}  {where}"
                courses.setdefault(name, []).append(line)
    return "\n".join("\n".join([name, *lines]) for name, lines in courses.items())


def main() -> None:
    """Print what is asked for."""
    found = runs(HISTORY)
    words = sys.argv[1:]
    if words:
        print(told(found, words) or f"none of {len(found)} runs has a figure with {' and '.join(words)} in its name")
        return
    for run in found:
        print(f"{run['machine']['date']}  {run['machine']['revision']}  {len(list(figures(run)))} figures")
    print("\n".join(sorted({table for run in found for table in run["medians"]})))


if __name__ == "__main__":
    main()
