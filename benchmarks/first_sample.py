"""A row of the time from the start of a recorder's command until it has taken its first sample."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from interpreters import Interpreter

from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Recording, Stack, Tachyon, Weft, places
from benchmarks.programs import TARGETS, known_to_all, newest, running_program
from benchmarks.real import with_packages
from benchmarks.results import Row, Settings, spread

RATE_HZ = 1000
SECONDS = 2
FUNCTION = "at_"  # of targets/moments.py
IMPORTS = "numpy,pandas"
WEFT = (Weft("ptrace"), Weft("bpf"), Weft("ptrace", native=True), Weft("bpf", native=True))


def first(settings: Settings) -> Iterator[Row]:
    """Programs whose functions are named for the time: with numpy and pandas loaded, and of 3.15."""
    python = known_to_all((3, 11))
    what = "numpy and pandas are loaded"
    if python and (its_python := with_packages("programs", python)):
        peers: Sequence[Peer] = (*WEFT, PySpy(), PySpy("--native"), Austin())
        yield first_row(what, IMPORTS, peers, its_python, settings)
    elif python:
        yield Row(f"Time to the first sample: {what}", (), notes=["Not measured: they could not be installed."])
    if own := newest((3, 15)):
        yield first_row("nothing else is loaded", "", (*WEFT[:2], Tachyon()), own, settings)


def first_row(what: str, imports: str, peers: Sequence[Peer], python: Interpreter, settings: Settings) -> Row:
    """Several recordings of each."""
    row = Row(f"Time to the first sample: {what}, at 1 kHz, {python.name}", ("first sample after", "samples"))
    with running_program(python, TARGETS / "moments.py", imports) as target:
        for peer in peers:
            with row.trying(peer, settings):
                waits = []
                for _ in range(settings.rounds):
                    began = time.monotonic()
                    run = Recording(peer, python, target.pid, RATE_HZ, SECONDS).finish(stacks=True)
                    waits.append(1000 * (first_seen_s(run.stacks) - began))
                row.add(peer.name, [spread(waits, "ms"), f"{run.told.samples:,}"], {"first_sample_ms": waits})
    row.notes.append(
        "From the start of the recorder's command to its first sample, or up to 10 ms less: the program's functions "
        "are named for the time at which they begin, and the earliest that was recorded tells. Files are in memory; "
        "what weft keeps of modules is there from the second round on, or from earlier rows."
    )
    return row


def first_seen_s(stacks: Sequence[tuple[Stack, float]]) -> float:
    """When the earliest function that was seen began, by CLOCK_MONOTONIC. PeerFailedError: none was."""
    names = {function.rpartition(".")[2] for stack, _ in stacks for function, _ in places(stack)}
    numbers = [int(name.removeprefix(FUNCTION)) for name in names if name.startswith(FUNCTION)]
    if not numbers:
        raise PeerFailedError("it saw none of the functions")
    return min(numbers) / 100
