"""Rows of cost: CPU per sample, slow-down, holds, memory, rates, idle threads, the file's size."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import median

from interpreters import Interpreter

from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Recording, Run, Tachyon, Weft, places
from benchmarks.programs import Worker, known_to_all, newest, running_worker
from benchmarks.results import Row, Settings, in_all, memory_of, micros, spread, told

RATE_HZ = 1000
BUSY = ("compute", "descend")  # the functions of a thread that computes; of a cut stack the outer one is missing
WARM_UP_S = 2.0  # a recorder's start is over by then
TO_SPARE_S = 1.0  # and its end has not begun so long before it
HOUR_S = 3600
SORTS = 4  # about 30 native frames in 3.13
MAX_FILE_MB = 150
WEFT = (Weft("ptrace"), Weft("bpf"))
PEERS = (*WEFT, PySpy(), Austin())
OF_CPU_TIME = (Weft("ptrace", "--mode", "cpu"), Weft("bpf", "--mode", "cpu"), PySpy(), Austin("--cpu"))
RATES_HZ = (1000, 2000, 5000, 10_000)
HELD = 0.99
SHAPES = {  # of growth: threads that compute, threads that wait, frames of those that compute
    ", 1 thread": (1, 0, 26),
    ", 2 of 2 threads run": (2, 0, 26),
    ", 2 of 200 threads run": (2, 198, 26),
    ", 2 of 1000 threads run": (2, 998, 26),
    ", 10 frames deep": (1, 0, 10),
    ", 100 frames deep": (1, 0, 100),
    ", 1,000 frames deep": (1, 0, 1000),
    ", 10,000 frames deep": (1, 0, 10_000),
}
COLUMNS = (
    "CPU/sample",
    "without start and end",
    "slow-down",
    "off CPU",
    "hold median",
    "longest",
    "peak memory",
    "samples",
    "late",
    "lost",
)


def cost(settings: Settings) -> Iterator[Row]:
    """One busy thread, 30 frames deep, at 1 kHz, under each recorder in turn."""
    if python := known_to_all():
        title = f"Cost at 1 kHz: one busy thread, 30 Python frames, {python.name}"
        yield compare(title, PEERS, python, settings)
        title = f"Cost at 1 kHz: 30 Python and 30 native frames, {python.name}"
        native = (Weft("ptrace", native=True), Weft("bpf", native=True), PySpy("--native"))
        yield compare(title, native, python, settings, sorts=SORTS)
        if not settings.quick:
            yield at_the_gil(python, settings)
    own = newest((3, 15))
    if own and not settings.quick:
        title = f"Cost at 1 kHz: one busy thread, 30 Python frames, {own.name}"
        yield compare(title, (*WEFT, Tachyon(), Tachyon("--blocking")), own, settings)


def at_the_gil(python: Interpreter, settings: Settings) -> Row:
    """Two threads that compete for the GIL, by recorders that take no stacks of what waits."""
    title = f"Cost at 1 kHz, of CPU time alone: two threads that compete for the GIL, {python.name}"
    row = compare(title, OF_CPU_TIME, python, settings, running=2)
    row.notes.append(
        "By default weft and austin take stacks of what waits, too (see growth). Here `weft record --mode cpu` takes "
        "none, nor does `austin --cpu` of threads that wait as it looks; py-spy never does, as far as it can tell."
    )
    return row


def compare(
    title: str, peers: Sequence[Peer], interpreter: Interpreter, settings: Settings, *, running: int = 1, sorts: int = 0
) -> Row:
    """Rounds of one recording of each peer; in each, the speed of the program before, under it, and after.

    A virtual machine's speed may change by a third from one second to the next, and the slow-down with it. The share of
    the time for which the target was not on a CPU does not; it leaves out what interrupts and cold caches cost.
    """
    row = Row(title, COLUMNS)
    seen = {peer: BesideWork() for peer in peers}
    with running_worker(interpreter, running, sorts=sorts) as worker:
        at_first(row, peers, interpreter, worker.pid, settings)
        for _ in range(settings.rounds):
            row.take_turns(seen, lambda peer, rounds: rounds.measure(peer, interpreter, worker, settings), settings)
    seen = {peer: rounds for peer, rounds in seen.items() if rounds.runs}
    for peer, rounds in seen.items():
        row.add(peer.name, rounds.cells(), rounds.measured())
    row.notes.append(
        "CPU/sample: of samples of what computes. Late and lost: in all rounds; longest: of all. weft bpf "
        "takes its samples in the program's own time: what that takes is in its CPU, and in the slow-down."
    )
    for peer in seen:
        for other in seen:
            if isinstance(peer, Weft) and not isinstance(other, Weft):
                ratios = seen[peer].ratio_to(seen[other])
                row.notes.append(f"One more sample of {peer.name} takes {ratios} of the CPU of one of {other.name}.")
    return row


def at_first(row: Row, peers: Sequence[Peer], interpreter: Interpreter, pid: int, settings: Settings) -> None:
    """What a first recording finds out and keeps, as unwind tables, is in none of the figures."""
    for peer in peers:
        with row.trying(peer, settings, " at first"):
            Recording(peer, interpreter, pid, RATE_HZ, 1).finish()


@dataclass
class Rounds:
    """Recordings by one recorder, one in each round. Their stacks, which may be gigabytes, are not kept."""

    runs: list[Run] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)  # of each, those that samples_of() counts

    def keep(self, run: Run) -> None:
        """One more. PeerFailedError."""
        samples = samples_of(run)
        run.stacks.clear()
        self.runs.append(run)
        self.samples.append(samples)

    def cpu_us(self) -> list[float]:
        """The CPU time of a sample, start and all."""
        return [run.cpu_s / samples * 1e6 for run, samples in zip(self.runs, self.samples, strict=True)]

    def steady_us(self) -> list[float]:
        """The CPU time of one more sample, in µs: neither the start nor the end is in it.

        It is not the difference of a short and a longer recording: starts differ by more than thousands of samples
        take.
        """
        return [
            run.steady_cpu * run.seconds / samples * 1e6 for run, samples in zip(self.runs, self.samples, strict=True)
        ]

    def ratio_to(self, other: Rounds) -> str:
        """What part one more sample took of one of the other's, round by round; the other may have failed in one."""
        pairs = zip(self.steady_us(), other.steady_us(), strict=False)
        return spread([one / another for one, another in pairs], "")


@dataclass
class BesideWork(Rounds):
    """And what the target lost meanwhile."""

    work: list[float] = field(default_factory=list)  # the share of its work that the target lost
    off_cpu: list[float] = field(default_factory=list)  # and of the time that it had a CPU

    def measure(self, peer: Peer, interpreter: Interpreter, worker: Worker, settings: Settings) -> None:
        """One more round. PeerFailedError."""
        run, work, off_cpu = beside_work(peer, interpreter, worker, RATE_HZ, settings)
        self.keep(run)
        self.work.append(work)
        self.off_cpu.append(off_cpu)

    def cells(self) -> list[str]:
        """In the order of COLUMNS: medians, with ranges where it matters."""
        longest = [run.told.hold_longest_s for run in self.runs if run.told.hold_longest_s is not None]
        return [
            spread(self.cpu_us(), "µs"),
            spread(self.steady_us(), "µs"),
            spread([100 * each for each in self.work], "%"),
            spread([100 * each for each in self.off_cpu], "%"),
            micros([run.told.hold_median_s for run in self.runs]),
            micros([max(longest, default=None)]),
            memory_of(self.runs),
            f"{median(self.samples):,.0f}",
            in_all([run.told.late for run in self.runs]),
            in_all([run.told.lost for run in self.runs]),
        ]

    def measured(self) -> dict[str, list[float]]:
        """Every figure."""
        return {
            "cpu_us_a_sample": self.cpu_us(),
            "steady_cpu_us": self.steady_us(),
            "slowed": self.work,
            "off_cpu": self.off_cpu,
            "hold_median_us": [run.told.hold_median_s * 1e6 for run in self.runs if run.told.hold_median_s is not None],
            "peak_bytes": [run.peak_bytes for run in self.runs],
            "kernel_cpu_us": [run.told.kernel_s / run.told.samples * 1e6 for run in self.runs if run.told.kernel_s],
            "samples": self.samples,
        }


def samples_of(run: Run) -> float:
    """How often it saw the thread that computes: some count those that wait, too. PeerFailedError: never."""
    whole = sum(weight for _, weight in run.stacks)
    busy = sum(weight for stack, weight in run.stacks if any(function.endswith(BUSY) for function, _ in places(stack)))
    if not busy:
        raise PeerFailedError("its recording has no samples of the thread that computes")
    return run.told.samples * busy / whole


def begin(peer: Peer, interpreter: Interpreter, pid: int, rate_hz: int, settings: Settings) -> Recording:
    """A recording whose start is over, and that goes on for `settings.seconds` at least. PeerFailedError."""
    seconds = round(WARM_UP_S + settings.seconds + TO_SPARE_S)
    recording = Recording(peer, interpreter, pid, rate_hz, seconds)
    time.sleep(WARM_UP_S)
    return recording


def steady_run(peer: Peer, interpreter: Interpreter, pid: int, rate_hz: int, settings: Settings) -> Run:
    """A recording, with what it took of a CPU for `settings.seconds` between its start and its end. PeerFailedError."""
    recording = begin(peer, interpreter, pid, rate_hz, settings)
    with recording.steadily():
        time.sleep(settings.seconds)
    return recording.finish(stacks=True)


def beside_work(
    peer: Peer, interpreter: Interpreter, worker: Worker, rate_hz: int, settings: Settings
) -> tuple[Run, float, float]:
    """A recording, and the shares of its work and of its CPU time that the target lost meanwhile. PeerFailedError."""
    before = worker.speed(settings.seconds / 2)
    recording = begin(peer, interpreter, worker.pid, rate_hz, settings)
    with recording.steadily():
        under = worker.speed(settings.seconds)
    run = recording.finish(stacks=True)
    after = worker.speed(settings.seconds / 2)
    off_cpu = (before.cpu_s + after.cpu_s) / 2 - under.cpu_s
    return run, 1 - 2 * under.work / (before.work + after.work), off_cpu


def rates(settings: Settings) -> Iterator[Row]:
    """Which rates hold? What does not is counted."""
    python = known_to_all()
    if python is None:
        return
    title = f"Rates: one busy thread, 30 Python frames, {python.name}"
    row = Row(title, ("had", "late", "lost", "CPU of the recorder", "of the thread", "hold median"))
    for peer in PEERS:
        held_hz = 0
        for rate_hz in RATES_HZ:
            what = f", {rate_hz:,} Hz"
            with row.trying(peer, settings, what), running_worker(python) as worker:
                recording = Recording(peer, python, worker.pid, rate_hz, settings.seconds)
                on_cpu = worker.speed(settings.seconds).cpu_s
                run = recording.finish(stacks=True)
                had_hz, cpu = samples_of(run) / run.seconds, run.cpu_s / run.seconds
                cells = [f"{had_hz:,.0f}/s", told(run.told.late), told(run.told.lost), f"{cpu:.1%}", f"{on_cpu:.1%}"]
                held = micros([run.told.hold_median_s])
                row.add(peer.name + what, [*cells, held], {"had_hz": [had_hz], "cpu_share": [cpu], "on_cpu": [on_cpu]})
                due_hz = rate_hz * (on_cpu if isinstance(peer, Weft) else 1)
                held_hz = rate_hz if had_hz >= HELD * due_hz else held_hz
        highest = f"{held_hz:,} Hz" if held_hz else "none"
        row.notes.append(f"The highest of these rates of which {peer.name} had {HELD:.0%}: {highest}.")
    row.notes.append(
        "Had: samples of the thread that computes. A period of weft's is one of the thread's CPU time: what it has to "
        "wait for its CPU is no part of it, and of its rate neither."
    )
    yield row


def growth(settings: Settings) -> Iterator[Row]:
    """How the cost grows with threads that wait, and with depth; and what an hour takes on disk."""
    python = known_to_all()
    if python is None:
        return
    others = [peer for peer in PEERS if not isinstance(peer, Weft)]
    columns = (
        "CPU/sample without start and end",
        *(f"of {other.name}'s" for other in others),
        "CPU of the recorder",
        "peak memory",
        "samples",
    )
    row = Row(f"Growth: at 1 kHz, {python.name}", columns)
    seen = {name: by_turns(row, name, python, settings) for name in SHAPES}
    for peer, (name, alike) in product(PEERS, seen.items()):
        rounds = alike[peer]
        if rounds.runs:
            cells = [
                spread(rounds.steady_us(), "µs"),
                *(
                    rounds.ratio_to(alike[other]) if isinstance(peer, Weft) and alike[other].runs else "-"
                    for other in others
                ),
                spread([100 * run.steady_cpu for run in rounds.runs], "%"),
                memory_of(rounds.runs),
                f"{median(rounds.samples):,.0f}",
            ]
            measured = {"steady_cpu_us": rounds.steady_us(), "peak_bytes": [run.peak_bytes for run in rounds.runs]}
            row.add(peer.name + name, cells, measured)
    row.notes.append(
        "Samples of weft are those at ticks of threads that compute, each by itself: of two that compete for the GIL, "
        "one at a time. The stacks that it takes besides, of each wait, are in its CPU, and not in its samples. The "
        "others look at all threads for each of theirs, and those of both are counted, the one that waits, too."
    )
    with row.trying(WEFT[0], settings, ", an hour's file"):
        row.notes.append(file_size(python, settings))
    yield row


def by_turns(row: Row, shape: str, python: Interpreter, settings: Settings) -> dict[Peer, Rounds]:
    """Rounds of a recording by each of PEERS of one program of that shape, until it fails."""
    seen: dict[Peer, Rounds] = {peer: Rounds() for peer in PEERS}
    running, blocked, depth = SHAPES[shape]
    with running_worker(python, running, blocked, depth=depth) as worker:

        def measure(peer: Peer, rounds: Rounds) -> None:
            rounds.keep(steady_run(peer, python, worker.pid, RATE_HZ, settings))

        for _ in range(settings.rounds):
            row.take_turns(seen, measure, settings, shape)
    return seen


def file_size(python: Interpreter, settings: Settings) -> str:
    """An hour of eight threads, extrapolated from seconds: what is written at the start counts as often."""
    with running_worker(python, 8) as worker:
        lengths = (2, 2 + 2 * settings.seconds)
        short, long = (Recording(WEFT[0], python, worker.pid, RATE_HZ, length).finish() for length in lengths)
    grown = (long.file_bytes - short.file_bytes) / (long.seconds - short.seconds)
    megabytes = (short.file_bytes + grown * HOUR_S) / 1e6
    return f"An hour of eight threads at 1 kHz takes {megabytes:.0f} MB on disk (at most {MAX_FILE_MB} MB are wanted)."
