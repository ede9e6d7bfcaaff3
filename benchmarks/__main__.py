"""weft and its peers, side by side: python -m benchmarks [ROW ...]

The machine should have nothing else to do. Recorders take turns on one program, so that what else it does falls on all
alike. What is measured is written to docs/bench, table by table; some rows alone take the place of what was there of
them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator

from benchmarks.asked import allocations
from benchmarks.blocked import blocked
from benchmarks.cost import cost, growth, rates
from benchmarks.first_sample import first
from benchmarks.memory import memory
from benchmarks.page import Machine, Section, kept, remember, write
from benchmarks.peers import Austin, Peer, PySpy, Tachyon, Weft
from benchmarks.perf import Perf, perf
from benchmarks.real import real
from benchmarks.results import Row, Settings
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
    peers: list[Peer] = [Weft("ptrace"), PySpy(), Austin(), Tachyon(), Perf("dwarf")]
    command = " ".join(["python -m benchmarks", *sys.argv[1:]])
    machine = Machine.here(command, [peer.version() for peer in peers])
    if os.getloadavg()[0] > 1:
        print("bench: the machine is busy: only ratios mean something, and they not much", file=sys.stderr)
    names = options.rows or (QUICKLY if options.quick else ROWS)
    measured: dict[str, Section] = {}
    before = kept() if options.rows else {}
    try:
        for name in names:
            rows = measured.setdefault(name, Section(machine, [])).rows
            for row in ROWS[name](settings):
                rows.append(row)
                print("\n".join([row.markdown(), *row.pages.values()]), flush=True)
                all_of_them = before | measured
                write({each: all_of_them[each] for each in ROWS if each in all_of_them})
    finally:
        remember(machine, [row for section in measured.values() for row in section.rows])


main()
