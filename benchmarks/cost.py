"""Rows of cost: CPU per sample, slow-down, holds, memory, rates, idle threads, the file's size."""

from __future__ import annotations

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
WARM_UP_S = 1.5  # a recorder's start is over by then
HOUR_S = 3600
SORTS = 4  # about 30 native frames in 3.13
MAX_FILE_MB = 150
WEFT = (Weft("ptrace"), Weft("bpf"))
PEERS = (*WEFT, PySpy(), Austin())
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
    "without start",
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
    own = newest((3, 15))
    if own and not settings.quick:
        title = f"Cost at 1 kHz: one busy thread, 30 Python frames, {own.name}"
        yield compare(title, (*WEFT, Tachyon(), Tachyon("--blocking")), own, settings)


def compare(title: str, peers: Sequence[Peer], interpreter: Interpreter, settings: Settings, sorts: int = 0) -> Row:
    """Rounds of one recording of each peer; in each, the speed of the program before, under it, and after.

    A virtual machine's speed may change by a third from one second to the next, and the slow-down with it. The share of
    the time for which the target was not on a CPU does not; it leaves out what interrupts and cold caches cost.
    """
    row = Row(title, COLUMNS)
    seen = {peer: Rounds() for peer in peers}
    with running_worker(interpreter, sorts=sorts) as worker:
        at_first(row, peers, interpreter, worker.pid, settings)
        for _ in range(settings.rounds):
            row.take_turns(seen, lambda peer, rounds: rounds.measure(peer, interpreter, worker, settings), settings)
    seen = {peer: rounds for peer, rounds in seen.items() if rounds.long}
    for peer, rounds in seen.items():
        row.add(peer.name, rounds.cells(), rounds.measured())
    row.notes.append(
        "CPU/sample: of samples of the thread that computes. Late and lost: in all rounds; longest: of all. weft bpf "
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
class Pairs:
    """A short and a longer recording by one recorder in each round."""

    short: list[Run] = field(default_factory=list)
    long: list[Run] = field(default_factory=list)

    def keep(self, short: Run, long: Run) -> None:
        """One more pair. PeerFailedError."""
        marginal_us(short, long)  # or it has failed
        self.short.append(short)
        self.long.append(long)

    def cpu_us(self) -> list[float]:
        """The CPU time of a sample, start and all."""
        return [run.cpu_s / samples_of(run) * 1e6 for run in self.long]

    def both(self) -> list[tuple[Run, Run]]:
        """The pairs."""
        return list(zip(self.short, self.long, strict=True))

    def marginal_us(self) -> list[float]:
        """The CPU time of one more sample."""
        return [marginal_us(*pair) for pair in self.both()]

    def ratio_to(self, other: Pairs) -> str:
        """What part one more sample took of one of the other's, round by round; the other may have failed in one."""
        pairs = zip(self.marginal_us(), other.marginal_us(), strict=False)
        return spread([one / another for one, another in pairs], "")


@dataclass
class Rounds(Pairs):
    """And what the target lost meanwhile."""

    work: list[float] = field(default_factory=list)  # the share of its work that the target lost
    off_cpu: list[float] = field(default_factory=list)  # and of the time that it had a CPU

    def measure(self, peer: Peer, interpreter: Interpreter, worker: Worker, settings: Settings) -> None:
        """One more round. PeerFailedError."""
        seconds = settings.seconds
        short = Recording(peer, interpreter, worker.pid, RATE_HZ, 1).finish(stacks=True)
        before = worker.speed(seconds / 2)
        recording = Recording(peer, interpreter, worker.pid, RATE_HZ, round(seconds + WARM_UP_S))
        worker.speed(WARM_UP_S)
        under = worker.speed(seconds - 1)
        long = recording.finish(stacks=True)
        after = worker.speed(seconds / 2)
        self.keep(short, long)
        self.work.append(1 - 2 * under.work / (before.work + after.work))
        self.off_cpu.append((before.cpu_s + after.cpu_s) / 2 - under.cpu_s)

    def cells(self) -> list[str]:
        """In the order of COLUMNS: medians, with ranges where it matters."""
        longest = [run.told.hold_longest_s for run in self.long if run.told.hold_longest_s is not None]
        return [
            spread(self.cpu_us(), "µs"),
            spread(self.marginal_us(), "µs"),
            spread([100 * each for each in self.work], "%"),
            spread([100 * each for each in self.off_cpu], "%"),
            micros([run.told.hold_median_s for run in self.long]),
            micros([max(longest, default=None)]),
            memory_of(self.long),
            f"{median(samples_of(run) for run in self.long):,.0f}",
            in_all([run.told.late for run in self.long]),
            in_all([run.told.lost for run in self.long]),
        ]

    def measured(self) -> dict[str, list[float]]:
        """Every figure."""
        return {
            "cpu_us_a_sample": self.cpu_us(),
            "marginal_cpu_us": self.marginal_us(),
            "slowed": self.work,
            "off_cpu": self.off_cpu,
            "hold_median_us": [run.told.hold_median_s * 1e6 for run in self.long if run.told.hold_median_s is not None],
            "peak_bytes": [run.peak_bytes for run in self.long],
            "kernel_cpu_us": [run.told.kernel_s / run.told.samples * 1e6 for run in self.long if run.told.kernel_s],
            "samples": [samples_of(run) for run in self.long],
        }


def samples_of(run: Run) -> float:
    """How often it saw the thread that computes: some count those that wait, too."""
    whole = sum(weight for _, weight in run.stacks)
    busy = sum(weight for stack, weight in run.stacks if any(function.endswith(BUSY) for function, _ in places(stack)))
    return run.told.samples * busy / whole if whole else 0


def marginal_us(short: Run, long: Run) -> float:
    """The CPU time of one more sample, in µs: the cost of the start is in both, and falls out. PeerFailedError."""
    more = samples_of(long) - samples_of(short)
    if more <= 0:
        raise PeerFailedError("its longer recording has no more samples of the thread that computes")
    return (long.cpu_s - short.cpu_s) / more * 1e6


def rates(settings: Settings) -> Iterator[Row]:
    """Which rates hold? What does not is counted."""
    python = known_to_all()
    if python is None:
        return
    title = f"Rates: one busy thread, 30 Python frames, {python.name}"
    row = Row(title, ("had", "late", "lost", "CPU of the recorder", "hold median"))
    for peer in PEERS:
        held_hz = 0
        for rate_hz in RATES_HZ:
            what = f", {rate_hz:,} Hz"
            with row.trying(peer, settings, what), running_worker(python) as worker:
                run = Recording(peer, python, worker.pid, rate_hz, settings.seconds).finish(stacks=True)
                seconds = run.told.seconds or settings.seconds
                had_hz, cpu = samples_of(run) / seconds, run.cpu_s / seconds
                cells = [f"{had_hz:,.0f}/s", told(run.told.late), told(run.told.lost), f"{cpu:.1%}"]
                held = micros([run.told.hold_median_s])
                row.add(peer.name + what, [*cells, held], {"had_hz": [had_hz], "cpu_share": [cpu]})
                held_hz = rate_hz if had_hz >= HELD * rate_hz else held_hz
        row.notes.append(f"The highest of these rates of which {peer.name} had {HELD:.0%}: {held_hz:,} Hz.")
    row.notes.append(
        "Had: samples of the thread that computes. A period of weft's is one of the thread's CPU time: what it has to "
        "wait for its CPU is no part of it."
    )
    yield row


def growth(settings: Settings) -> Iterator[Row]:
    """How the cost grows with threads that wait, and with depth; and what an hour takes on disk."""
    python = known_to_all()
    if python is None:
        return
    others = [peer for peer in PEERS if not isinstance(peer, Weft)]
    columns = (
        "CPU/sample without start",
        *(f"of {other.name}'s" for other in others),
        "CPU of the recorder",
        "peak memory",
        "samples",
    )
    row = Row(f"Growth: at 1 kHz, {python.name}", columns)
    seen = {name: by_turns(row, name, python, settings) for name in SHAPES}
    for peer, (name, alike) in product(PEERS, seen.items()):
        pairs = alike[peer]
        if pairs.long:
            cells = [
                spread(pairs.marginal_us(), "µs"),
                *(
                    pairs.ratio_to(alike[other]) if isinstance(peer, Weft) and alike[other].long else "-"
                    for other in others
                ),
                spread([100 * (long.cpu_s - short.cpu_s) / settings.seconds for short, long in pairs.both()], "%"),
                memory_of(pairs.long),
                f"{median(map(samples_of, pairs.long)):,.0f}",
            ]
            measured = {"marginal_cpu_us": pairs.marginal_us(), "peak_bytes": [run.peak_bytes for run in pairs.long]}
            row.add(peer.name + name, cells, measured)
    row.notes.append(
        "Samples of weft are those at ticks of threads that compute, each by itself: of two that compete for the GIL, "
        "one at a time. The stacks that it takes besides, of each wait, are in its CPU, and not in its samples. The "
        "others look at all threads for each of theirs, and those of both are counted, the one that waits, too."
    )
    with row.trying(WEFT[0], settings, ", an hour's file"):
        row.notes.append(file_size(python, settings))
    yield row


def by_turns(row: Row, shape: str, python: Interpreter, settings: Settings) -> dict[Peer, Pairs]:
    """Rounds of a short and a longer recording by each of PEERS of one program of that shape, until it fails."""
    seen: dict[Peer, Pairs] = {peer: Pairs() for peer in PEERS}
    running, blocked, depth = SHAPES[shape]
    with running_worker(python, running, blocked, depth=depth) as worker:

        def measure(peer: Peer, pairs: Pairs) -> None:
            short = Recording(peer, python, worker.pid, RATE_HZ, 1).finish(stacks=True)
            pairs.keep(short, Recording(peer, python, worker.pid, RATE_HZ, 1 + settings.seconds).finish(stacks=True))

        for _ in range(settings.rounds):
            row.take_turns(seen, measure, settings, shape)
    return seen


def file_size(python: Interpreter, settings: Settings) -> str:
    """An hour of eight threads, extrapolated from seconds: what is written at the start counts as often."""
    with running_worker(python, 8) as worker:
        lengths = (2, 2 + 2 * settings.seconds)
        short, long = (Recording(WEFT[0], python, worker.pid, RATE_HZ, length).finish() for length in lengths)
    grown = (long.file_bytes - short.file_bytes) / (long.told.seconds - short.told.seconds)
    megabytes = (short.file_bytes + grown * HOUR_S) / 1e6
    return f"An hour of eight threads at 1 kHz takes {megabytes:.0f} MB on disk (at most {MAX_FILE_MB} MB are wanted)."
