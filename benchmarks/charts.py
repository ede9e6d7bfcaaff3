"""Bars of what was measured, as SVG: a chart for each table and measure that is worth one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.results import Row

OWN, OTHERS, TEXT = "#d9480f", "#868e96", "#868e96"  # to be read on white and on black


@dataclass(frozen=True)
class Chart:
    """What is shown of a row that has this measure: its values in a unit, by the round."""

    measure: str
    title: str
    values: Callable[[Sequence[float]], Sequence[float]]


def _percent(values: Sequence[float]) -> Sequence[float]:
    return [100 * value for value in values]


def _mean_error(values: Sequence[float]) -> Sequence[float]:
    return [fmean(map(abs, values))]


def _mean_error_percent(values: Sequence[float]) -> Sequence[float]:
    return _percent(_mean_error(values))


CHARTS = (
    Chart("impossible_share", "Impossible stacks, %", _percent),
    Chart("wrong_share", "Stacks with a wrong call, %", _percent),
    Chart("points_off", "Error of a share in the mean, percentage points", _mean_error),
    Chart("blocked_off", "Error of a blocked time in the mean, %", _mean_error_percent),
    Chart("bytes_off", "Error of allocated bytes in the mean, %", _mean_error_percent),
    Chart("first_sample_ms", "Time to the first sample, ms", lambda values: values),
    Chart("steady_cpu_us", "CPU of one more sample, µs", lambda values: values),
    Chart("slowed", "Slow-down of the program, %", _percent),
)


def draw(row: Row, folder: Path, name: str) -> list[tuple[str, Path]]:
    """The charts of a row: titles, and the files that were written, whose names begin with `name`."""
    drawn: list[tuple[str, Path]] = []
    for chart in CHARTS:
        shown = {name: chart.values(of[chart.measure]) for name, of in row.measured.items() if of.get(chart.measure)}
        if len(shown) > 1:
            path = folder / f"{name}-{len(drawn) + 1}.svg"
            _write_bars(chart.title, shown, path)
            drawn.append((chart.title, path))
    return drawn


def _write_bars(title: str, shown: dict[str, Sequence[float]], path: Path) -> None:
    """Medians as bars, the least and the most of all rounds as a line across the end of each."""
    mpl.rcParams.update({"svg.hashsalt": "weft", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure = Figure(figsize=(7, 0.7 + 0.3 * len(shown)), layout="constrained")
    axes = figure.subplots()
    medians = [median(values) for values in shown.values()]
    ends = [[m - min(v) for m, v in zip(medians, shown.values(), strict=True)],
            [max(v) - m for m, v in zip(medians, shown.values(), strict=True)]]  # fmt: skip
    colors = [OWN if "weft" in name else OTHERS for name in shown]
    bars = axes.barh(list(shown), medians, xerr=ends, color=colors, ecolor=TEXT, capsize=2)
    axes.bar_label(bars, fmt="{:.3g}", padding=4, color=TEXT)
    axes.invert_yaxis()
    axes.set_title(title, loc="left", color=TEXT)
    axes.margins(x=0.15)
    axes.tick_params(colors=TEXT)
    axes.spines[:].set_visible(False)
    figure.savefig(path, transparent=True, metadata={"Date": None})
