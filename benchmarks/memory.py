"""A row of resident memory: recorders that have run for ten minutes, all at once, each of a program of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from interpreters import Interpreter

from benchmarks.peers import Austin, Peer, PySpy, Recording, Tachyon, Weft
from benchmarks.perf import Perf
from benchmarks.processes import resident_bytes
from benchmarks.programs import TARGETS, known_to_all, newest, running_program
from benchmarks.results import Row, Settings

RATE_HZ = 100
SECONDS = 600
EARLY_S = 60
EVERY_S = 5
WEFT = (Weft("ptrace"), Weft("bpf"), Weft("ptrace", native=True), Weft("bpf", native=True))


def memory(settings: Settings) -> Iterator[Row]:
    """A program a recorder, of a dozen kinds of work."""
    row = Row(
        f"Resident memory after ten minutes at {RATE_HZ} Hz, a dozen kinds of work",
        ("after a minute", "after ten", "of the kernel's", "file", "samples"),
    )
    groups: list[tuple[Interpreter | None, Sequence[Peer]]] = [
        (known_to_all(), (*WEFT, PySpy(), PySpy("--native"), Austin(), Perf("fp"))),
        (newest((3, 15)), (Tachyon(),)),
    ]
    with ExitStack() as stack:
        started = [
            (peer, python, stack.enter_context(running_program(python, TARGETS / "kinds.py", SECONDS + 300)))
            for python, peers in groups
            if python
            for peer in peers
            if not row.is_missing(peer, python)
        ]
        if not started:
            return
        seen = [(peer, Recording(peer, python, target.pid, RATE_HZ, SECONDS)) for peer, python, target in started]
        begin = time.monotonic()
        early, late = [0] * len(seen), [0] * len(seen)
        while (passed := time.monotonic() - begin) < SECONDS:
            time.sleep(EVERY_S)
            now = [resident_bytes(recording.pid) for _, recording in seen]
            late = [bytes_ or before for bytes_, before in zip(now, late, strict=True)]
            early = late if passed < EARLY_S else early
        for (peer, recording), (_, python, _), first, last in zip(seen, started, early, late, strict=True):
            with row.trying(peer, settings):
                run = recording.finish()
                of_kernel = f"{run.kernel_bytes / 1e6:.0f} MB" if run.kernel_bytes else "-"
                cells = [f"{first / 1e6:.0f} MB", f"{last / 1e6:.0f} MB", of_kernel, f"{run.file_bytes / 1e6:.2f} MB"]
                name = f"{peer.name}, {python.name}"
                row.add(name, [*cells, f"{run.told.samples:,}"], {"resident_bytes": [last], "early": [first]})
    row.notes.append(
        "All recorders run at once, each beside a program of its own, so that each program has a part of the CPUs "
        "only: weft's samples are of CPU time, the others' of time on the clock. After ten: in the last seconds. perf "
        "knows no function of Python's here: its program runs without -X perf."
    )
    yield row
