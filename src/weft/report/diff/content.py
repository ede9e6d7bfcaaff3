"""What every form of a difference tells: the words and figures, without their looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.profile.difference import Change, Difference, Normalise, Row
from weft.profile.merged import Merged
from weft.profile.names import escape, short_file
from weft.profile.quality import Account
from weft.profile.tables import Profile
from weft.profile.units import TIME, Unit, amount, duration


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a difference."""

    path: Path
    profiles: list[Profile]
    accounts: list[Account]

    @property
    def unit(self) -> Unit:
        """What its recordings count, all of them."""
        return self.profiles[0].unit

    def told(self) -> str:
        """What it rests on, in one line."""
        parts = [amount(len(self.profiles), "recording")] if len(self.profiles) > 1 else []
        parts.append(amount(sum(profile.ticks for profile in self.profiles), self.unit.tick))
        weight = self.unit.text(sum(profile.weight_ns for profile in self.profiles))
        parts.append(f"{weight} {'of thread time' if self.unit is TIME else 'asked for'}")
        parts.append(f"recorded in {duration(sum(profile.duration_ns for profile in self.profiles))}")
        if lost := sum(account.lost_count for account in self.accounts):
            parts.append(f"{amount(lost, 'sample')} lost")
        return f"{escape(str(self.path))}: " + ", ".join(parts)

    def warnings(self) -> Iterator[str]:
        """What its accounts warn of."""
        for warning in dict.fromkeys(warning for account in self.accounts for warning in account.warnings):
            yield f"{escape(self.path.name)}: {escape(warning)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A difference with all that it was made of."""

    before: Side
    after: Side
    difference: Difference
    merged: Merged


@dataclass(frozen=True, slots=True)
class Section:
    """Functions whose time or memory has certainly changed, the largest change first; `kind`: own or total."""

    title: str
    kind: str
    rows: list[Row]


def sections(difference: Difference) -> list[Section]:
    """What is news; a section without rows is left out."""
    more, less = _more_and_less(difference)
    itself = "by their own time" if difference.unit is TIME else "by themselves"
    found = [
        Section(f"{more} {itself}", "own", difference.slower("own")),
        Section(f"{less} {itself}", "own", difference.faster("own")),
        Section(f"{more} with all that they call", "total", difference.slower("total")),
        Section(f"{less} with all that they call", "total", difference.faster("total")),
    ]
    return [section for section in found if section.rows]


def _more_and_less(difference: Difference) -> tuple[str, str]:
    return ("Slower", "Faster") if difference.unit is TIME else ("More memory", "Less memory")


def headline(difference: Difference) -> str:
    """What has come out, in one line."""
    certain = f"at {100 * difference.level:g} % certainty"
    if difference.normalise is not Normalise.SAMPLES and difference.whole.is_news:
        word = "more" if difference.whole.change > 0 else "less"
        return (
            f"All together takes {word} {difference.unit.whole}: {figure(difference, difference.whole.before)} before, "
            f"{figure(difference, difference.whole.after)} after, {signed(difference.whole.change)} "
            f"({interval(difference.whole)}) {certain}"
        )
    slower = {(row.function, row.file) for kind in ("own", "total") for row in difference.slower(kind)}
    faster = {(row.function, row.file) for kind in ("own", "total") for row in difference.faster(kind)}
    if not slower and not faster:
        return f"No change that is more than noise, {certain}"
    more, less = (word.lower() for word in _more_and_less(difference))
    with_ = "" if difference.unit is TIME else "with "
    return f"{amount(len(slower), 'function')} {with_}{more}, {len(faster):,} {with_}{less}, {certain}"


def notes(difference: Difference) -> Iterator[str]:
    """How the figures are to be read."""
    if difference.normalise is Normalise.SAMPLES:
        of = "samples" if difference.unit is TIME else "memory that was asked for"
        yield f"Figures are shares of all {of}: where one function takes more, all others take less"
    else:
        whole = difference.unit.whole
        figures_are = f"{whole} for each second" if difference.normalise is Normalise.TIME else f"the {whole}"
        yield f"Figures are {figures_are} of a recording; changes are parts of all {whole} before"
    yield (
        f"All intervals hold at once ({amount(difference.comparisons, 'comparison')}); noise is measured "
        + ("from recording to recording" if difference.from_runs else "within each recording")
    )
    if difference.normalise is not Normalise.SAMPLES and not difference.from_runs:
        yield (
            "From one recording on each side it is not known how much times differ from run to run, with the speed of "
            "the machine: record several runs of each, and give two folders"
        )
    if difference.blind:
        yield (
            "One side does not tell when its samples were taken: they are taken for independent of each other, and "
            "the intervals are the smallest that can be"
        )
    unsure = [row for row in difference.rows if not row.own.is_news and abs(row.own.change) >= 0.005]
    if unsure:
        largest = max(unsure, key=lambda row: abs(row.own.change))
        yield (
            f"Not told apart from noise: {amount(len(unsure), 'function')} with a change of 0.5 % or more, such as "
            f"{name(largest)} with {signed(largest.own.change)}"
        )


def name(row: Row) -> str:
    """A function and its file, on one line."""
    return f"{escape(row.function)} ({escape(short_file(row.file))})" if row.file else escape(row.function)


def figures(difference: Difference, change: Change) -> tuple[str, str, str, str, str]:
    """Before, after, the change, its interval, and how many times as much it is."""
    return (
        figure(difference, change.before),
        figure(difference, change.after),
        signed(change.change),
        interval(change),
        ratio(change),
    )


def figure(difference: Difference, part: float) -> str:
    """A value as the normalisation has it: 12.1 %, 340 ms, 21.0 ms/s."""
    if difference.normalise is Normalise.SAMPLES:
        return percent(part)
    weight = difference.unit.text(round(part * difference.whole_weight))
    return weight + "/s" if difference.normalise is Normalise.TIME else weight


def interval(change: Change) -> str:
    """Where the change lies."""
    return f"{100 * change.low:+.1f} … {signed(change.high)}"


def ratio(change: Change) -> str:
    """How many times as much it is."""
    if not change.before:
        return "new"
    if not change.after:
        return "gone"
    return f"x{change.after / change.before:.2f}"


def percent(part: float) -> str:
    """A part in percent."""
    return f"{100 * part:.1f} %"


def signed(part: float) -> str:
    """A change in percent, with its sign."""
    return f"{100 * part:+.1f} %"


def closing(comparison: Comparison) -> Sequence[str]:
    """What the figures rest on."""
    lines = [f"before  {comparison.before.told()}", f"after   {comparison.after.told()}"]
    lines += [f"warning {warning}" for side in (comparison.before, comparison.after) for warning in side.warnings()]
    return lines
