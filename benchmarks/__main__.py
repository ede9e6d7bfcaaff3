"""weft and its peers, side by side: python -m benchmarks [ROW ...]

The machine should have nothing else to do. Recorders take turns on one program, so that what else it does falls on all
alike. What is measured is written to docs/bench, table by table; some rows alone take the place of what was there of
them. --quick writes to build/bench, and not to the history.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

from benchmarks.asked import allocations
from benchmarks.blocked import blocked
from benchmarks.cost import cost, growth, rates
from benchmarks.dumpers import gdb_version
from benchmarks.first_sample import first
from benchmarks.install import PEERS
from benchmarks.launched import IN_PROCESS
from benchmarks.memory import memory
from benchmarks.page import FOLDER, QUICK_FOLDER, Machine, Section, calm, kept, remember, write
from benchmarks.peers import Austin, Peer, PySpy, Tachyon, Weft
from benchmarks.perf import Perf, perf
from benchmarks.programs import known_to_all, newest
from benchmarks.real import real
from benchmarks.results import FAILURES, Row, Settings
from benchmarks.scale import scale
from benchmarks.scalene import scalene
from benchmarks.stacks import stacks
from benchmarks.truth import interleavings, shares, storm

ROWS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    "storm": storm,
    "interleavings": interleavings,
    "shares": shares,
    "blocked": blocked,
    "allocations": allocations,
    "cost": cost,
    "rates": rates,
    "growth": growth,
    "scalene": scalene,
    "perf": perf,
    "stacks": stacks,
    "first": first,
    "scale": scale,
    "memory": memory,
    "real": real,
}
QUICK = Settings(seconds=2, rounds=1, quick=True)
QUICKLY = ("storm", "interleavings", "shares", "blocked", "allocations", "cost", "stacks", "real")


def main() -> None:
    """Measure the rows that are asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="weft and its peers, side by side.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all by default")
    parser.add_argument("--seconds", type=float, default=6, help="of one recording")
    parser.add_argument("--rounds", type=int, default=3, help="recordings of each kind")
    parser.add_argument(
        "--quick", action="store_true", help=f"in a few minutes, less sure, and only {', '.join(QUICKLY)}"
    )
    options = parser.parse_args()
    if unknown := set(options.rows) - ROWS.keys():
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    settings = QUICK if options.quick else Settings(options.seconds, options.rounds, quick=False)
    calm()
    machine = Machine.here(" ".join(["python -m benchmarks", *sys.argv[1:]]), versions(), absent())
    print(machine.markdown(), flush=True)
    names = options.rows or (QUICKLY if options.quick else ROWS)
    measured: dict[str, Section] = {}
    folder = QUICK_FOLDER if options.quick else FOLDER
    before = kept(folder) if options.rows else {}
    try:
        for name in names:
            rows = measured.setdefault(name, Section(machine, [])).rows
            for row in rows_of(name, settings):
                rows.append(row)
                print("\n".join([row.markdown(), *row.pages.values()]), flush=True)
                all_of_them = before | measured
                write({each: all_of_them[each] for each in ROWS if each in all_of_them}, folder)
    finally:
        if not options.quick:
            remember(machine, [row for section in measured.values() for row in section.rows])


def versions() -> list[str]:
    """Of all that is compared."""
    peers: list[Peer] = [Weft("ptrace"), PySpy(), Austin(), Tachyon(), Perf("dwarf")]
    pinned = [package.replace("==", " ") for package in [*PEERS["pystack"], *IN_PROCESS]]
    return [*filter(None, (peer.version() for peer in peers)), *pinned, *gdb_version()]


def absent() -> str:
    """Which interpreters are not on this machine, so that a page with fewer tables says why."""
    told = []
    if (python := known_to_all()) is None or python.minor != (3, 13):
        instead = (
            f"{python.name} stands for it where another can" if python else "nothing that peers know stands for it"
        )
        told.append(f"There is no CPython 3.13 outside of a chroot; {instead}.")
    if newest((3, 15)) is None:
        told.append("There is no CPython 3.15 that could be started, so nothing of its own sampler is here.")
    return " ".join(told)


def rows_of(name: str, settings: Settings) -> Iterator[Row]:
    """The tables of a row; where all of it fails, a table that says so, and the next row goes on."""
    try:
        yield from ROWS[name](settings)
    except FAILURES as error:
        yield Row(f"The rest of {name}", (), notes=[f"Not measured: {error}."])


main()
