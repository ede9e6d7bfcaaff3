"""Rows of cost: CPU per sample, slow-down, holds, memory, rates, idle threads, the file's size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
        for number in range(settings.rounds):
            for peer, rounds in seen.items():
                if len(rounds.long) == number:  # it has not failed before
                    with row.trying(peer, settings):
                        rounds.measure(peer, interpreter, worker, settings.seconds)
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
                pairs = zip(seen[peer].marginal_us(), seen[other].marginal_us(), strict=False)
                ratios = spread([one / another for one, another in pairs], "")
                row.notes.append(f"One more sample of {peer.name} takes {ratios} of the CPU of one of {other.name}.")
    return row


@dataclass
class Rounds:
    """What one recorder cost, and its target lost, in each round."""

    short: list[Run] = field(default_factory=list)
    long: list[Run] = field(default_factory=list)
    work: list[float] = field(default_factory=list)  # the share of its work that the target lost
    off_cpu: list[float] = field(default_factory=list)  # and of the time that it had a CPU

    def measure(self, peer: Peer, interpreter: Interpreter, worker: Worker, seconds: float) -> None:
        """One more round. PeerFailedError."""
        short = Recording(peer, interpreter, worker.pid, RATE_HZ, 1).finish(stacks=True)
        before = worker.speed(seconds / 2)
        recording = Recording(peer, interpreter, worker.pid, RATE_HZ, round(seconds + WARM_UP_S))
        worker.speed(WARM_UP_S)
        under = worker.speed(seconds - 1)
        long = recording.finish(stacks=True)
        after = worker.speed(seconds / 2)
        marginal_us(short, long)  # or it has failed
        self.short.append(short)
        self.long.append(long)
        self.work.append(1 - 2 * under.work / (before.work + after.work))
        self.off_cpu.append((before.cpu_s + after.cpu_s) / 2 - under.cpu_s)

    def cpu_us(self) -> list[float]:
        """The CPU time of a sample, start and all."""
        return [run.cpu_s / samples_of(run) * 1e6 for run in self.long]

    def marginal_us(self) -> list[float]:
        """The CPU time of one more sample."""
        return [marginal_us(*pair) for pair in zip(self.short, self.long, strict=True)]

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
    row = Row(f"Growth: at 1 kHz, {python.name}", ("CPU/sample without start", "peak memory", "samples"))
    shapes = [(", 1 thread", 1, 0, 26)]
    shapes += [(f", 2 of {2 + blocked} threads run", 2, blocked, 26) for blocked in (0, 198, 998)]
    shapes += [(f", {depth:,} frames deep", 1, 0, depth) for depth in (10, 100, 1000, 10_000)]
    for peer in PEERS:
        for name, running, blocked, depth in shapes:
            with (
                row.trying(peer, settings, name),
                running_worker(python, running, blocked, depth=depth) as worker,
            ):
                lengths = (1, 1 + settings.seconds)
                runs = [Recording(peer, python, worker.pid, RATE_HZ, each).finish(stacks=True) for each in lengths]
                us = marginal_us(*runs)
                cells = [f"{us:.1f} µs", memory_of(runs[1:]), f"{samples_of(runs[1]):,.0f}"]
                row.add(peer.name + name, cells, {"marginal_cpu_us": [us], "peak_bytes": [runs[1].peak_bytes]})
    row.notes.append(
        "Samples are of threads that compute, each by itself. The others look at all threads for each of theirs, "
        "and keep those of threads that wait, or tell them apart."
    )
    with row.trying(WEFT[0], settings, ", an hour's file"):
        row.notes.append(file_size(python, settings))
    yield row


def file_size(python: Interpreter, settings: Settings) -> str:
    """An hour of eight threads, extrapolated from seconds: what is written at the start counts as often."""
    with running_worker(python, 8) as worker:
        lengths = (2, 2 + 2 * settings.seconds)
        short, long = (Recording(WEFT[0], python, worker.pid, RATE_HZ, length).finish() for length in lengths)
    grown = (long.file_bytes - short.file_bytes) / (long.told.seconds - short.told.seconds)
    megabytes = (short.file_bytes + grown * HOUR_S) / 1e6
    return f"An hour of eight threads at 1 kHz takes {megabytes:.0f} MB on disk (at most {MAX_FILE_MB} MB are wanted)."
