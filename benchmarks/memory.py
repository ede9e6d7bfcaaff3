"""A row of resident memory: recorders that have run for ten minutes, all at once, each of a program of its own."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.peers import Austin, Peer, PySpy, Recording, Tachyon, Weft
from benchmarks.perf import Perf
from benchmarks.programs import TARGETS, newest, running_program
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
        ("after a minute", "after ten", "file", "samples"),
    )
    groups: list[tuple[tuple[int, int], Sequence[Peer]]] = [
        ((3, 13), (*WEFT, PySpy(), PySpy("--native"), Austin(), Perf("fp"))),
        ((3, 15), (Tachyon(),)),
    ]
    with ExitStack() as stack:
        started = [
            (peer, python, stack.enter_context(running_program(python, TARGETS / "kinds.py", SECONDS + 300)))
            for minor, peers in groups
            if (python := newest(minor))
            for peer in peers
            if not row.is_missing(peer, python)
        ]
        seen = [(peer, Recording(peer, python, target.pid, RATE_HZ, SECONDS)) for peer, python, target in started]
        begin = time.monotonic()
        early, late = [0] * len(seen), [0] * len(seen)
        while (passed := time.monotonic() - begin) < SECONDS:
            time.sleep(EVERY_S)
            now = [resident_bytes(recording.pid) for _, recording in seen]
            late = [bytes_ or before for bytes_, before in zip(now, late, strict=True)]
            early = late if passed < EARLY_S else early
        for (peer, recording), first, last in zip(seen, early, late, strict=True):
            with row.trying(peer, settings):
                run = recording.finish()
                cells = [f"{first / 1e6:.0f} MB", f"{last / 1e6:.0f} MB", f"{run.file_bytes / 1e6:.2f} MB"]
                row.add(peer.name, [*cells, f"{run.told.samples:,}"], {"resident_bytes": [last], "early": [first]})
    row.notes.append(
        "All recorders run at once, each beside a program of its own, so that each has a part of the CPUs only. "
        "After ten: in the last seconds."
    )
    yield row


def resident_bytes(pid: int) -> int:
    """Of a process, now; 0 if it has ended."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 if found else 0
    return 0
