"""Rows of cost: CPU per sample, slow-down, holds, memory, rates, idle threads, the file's size."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.peers import Austin, Peer, PySpy, Recording, Run, Tachyon, Weft
from benchmarks.programs import Interpreter, newest, running_worker
from benchmarks.results import Row, Settings, micros, spread, told

RATE_HZ = 1000
WARM_UP_S = 1.5  # a recorder's start is over by then
HOUR_S = 3600
SORTS = 4  # about 30 native frames in 3.13
MAX_FILE_MB = 150
WEFT = (Weft("ptrace"), Weft("bpf"))
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


def cost(settings: Settings) -> list[Row]:
    """One busy thread, 30 frames deep, at 1 kHz, under each recorder in turn."""
    python, own = newest((3, 13)), newest((3, 15))
    rows = []
    if python:
        title = f"Cost at 1 kHz: one busy thread, 30 Python frames, {python.name}"
        rows.append(compare(title, (*WEFT, PySpy(), Austin()), python, settings))
        title = f"Cost at 1 kHz: 30 Python and 30 native frames, {python.name}"
        native = (Weft("ptrace", native=True), Weft("bpf", native=True), PySpy("--native"))
        rows.append(compare(title, native, python, settings, sorts=SORTS))
    if own:
        title = f"Cost at 1 kHz: one busy thread, 30 Python frames, {own.name}"
        rows.append(compare(title, (*WEFT, Tachyon(), Tachyon("--blocking")), own, settings))
    return rows


def compare(title: str, peers: Sequence[Peer], interpreter: Interpreter, settings: Settings, sorts: int = 0) -> Row:
    """Rounds of one recording of each peer; in each, the speed of the program before, under it, and after.

    A virtual machine's speed may change by a third from one second to the next, and the slow-down with it. The share of
    the time for which the target was not on a CPU does not; it leaves out what interrupts and cold caches cost.
    """
    able = [peer for peer in peers if not peer.missing(interpreter)]
    short: dict[str, list[Run]] = {peer.name: [] for peer in able}
    long: dict[str, list[Run]] = {peer.name: [] for peer in able}
    work: dict[str, list[float]] = {peer.name: [] for peer in able}
    off_cpu: dict[str, list[float]] = {peer.name: [] for peer in able}
    with running_worker(interpreter, sorts=sorts) as worker:
        for _ in range(settings.rounds):
            for peer in able:
                settings.progress(f"{title}: {peer.name}")
                short[peer.name].append(Recording(peer, interpreter, worker.pid, RATE_HZ, 1).finish())
                before = worker.speed(settings.seconds / 2)
                recording = Recording(peer, interpreter, worker.pid, RATE_HZ, round(settings.seconds + WARM_UP_S))
                worker.speed(WARM_UP_S)
                under = worker.speed(settings.seconds - 1)
                long[peer.name].append(recording.finish())
                after = worker.speed(settings.seconds / 2)
                work[peer.name].append(1 - 2 * under.work / (before.work + after.work))
                off_cpu[peer.name].append((before.cpu_s + after.cpu_s) / 2 - under.cpu_s)
    row = Row(title, COLUMNS)
    for peer in peers:
        if why := peer.missing(interpreter):
            row.missing[peer.name] = why
            continue
        runs = long[peer.name]
        row.add(
            peer.name,
            cells(short[peer.name], runs, work[peer.name], off_cpu[peer.name]),
            {
                "cpu_us_a_sample": [run.cpu_s / max(run.told.samples, 1) * 1e6 for run in runs],
                "marginal_cpu_us": [marginal_us(*pair) for pair in zip(short[peer.name], runs, strict=True)],
                "slowed": work[peer.name],
                "off_cpu": off_cpu[peer.name],
                "hold_median_us": [(run.told.hold_median_s or 0) * 1e6 for run in runs],
                "peak_bytes": [run.peak_bytes for run in runs],
                "samples": [run.told.samples for run in runs],
            },
        )
    add_ratios(row, able, short, long)
    return row


def cells(short: list[Run], long: list[Run], work: list[float], off_cpu: list[float]) -> list[str]:
    """One recorder's, in the order of COLUMNS: medians, with ranges where it matters."""
    return [
        spread([run.cpu_s / max(run.told.samples, 1) * 1e6 for run in long], "µs"),
        spread([marginal_us(*pair) for pair in zip(short, long, strict=True)], "µs"),
        spread([100 * each for each in work], "%"),
        spread([100 * each for each in off_cpu], "%"),
        micros([run.told.hold_median_s for run in long]),
        micros([run.told.hold_longest_s for run in long]),
        f"{median(run.peak_bytes for run in long) / 1e6:.0f} MB",
        f"{median(run.told.samples for run in long):,.0f}",
        told(long[-1].told.late),
        told(long[-1].told.lost),
    ]


def marginal_us(short: Run, long: Run) -> float:
    """The CPU time of one more sample, in µs: the cost of the start is in both, and falls out."""
    return (long.cpu_s - short.cpu_s) / max(long.told.samples - short.told.samples, 1) * 1e6


def add_ratios(row: Row, peers: list[Peer], short: dict[str, list[Run]], long: dict[str, list[Run]]) -> None:
    """The CPU per sample of each weft as a part of each other's: of rounds, so that what else runs falls on both."""

    def costs(peer: Peer) -> list[float]:
        return [marginal_us(*pair) for pair in zip(short[peer.name], long[peer.name], strict=True)]

    own = [peer for peer in peers if isinstance(peer, Weft)]
    for peer in own:
        for other in peers:
            if other not in own:
                ratios = [one / another for one, another in zip(costs(peer), costs(other), strict=True)]
                row.notes.append(
                    f"One more sample of {peer.name} takes {spread(ratios, '')} of the CPU of one of {other.name}."
                )


def rates(settings: Settings) -> list[Row]:
    """Do high rates hold? What does not is counted."""
    python = newest((3, 13))
    if python is None:
        return []
    row = Row(
        f"Rates: one busy thread, 30 Python frames, {python.name}",
        ("had", "late", "lost", "CPU of weft", "hold median"),
    )
    for peer in WEFT:
        if why := peer.missing(python):
            row.missing[peer.name] = why
            continue
        with running_worker(python) as worker:
            for rate_hz in (1000, 5000) if settings.quick else (1000, 2000, 5000, 10_000):
                settings.progress(f"{row.title}: {peer.name}, {rate_hz} Hz")
                run = Recording(peer, python, worker.pid, rate_hz, settings.seconds).finish()
                had = run.told.samples / run.told.seconds
                cpu = run.cpu_s / run.told.seconds
                held = micros([run.told.hold_median_s])
                values = [f"{had:,.0f}/s", told(run.told.late), told(run.told.lost), f"{cpu:.1%}", held]
                row.add(f"{peer.name}, {rate_hz:,} Hz", values, {"had_hz": [had], "cpu_share": [cpu]})
    return [row]


def growth(settings: Settings) -> list[Row]:
    """How the cost of weft grows with threads that wait, and with depth; and what an hour takes on disk."""
    python = newest((3, 13))
    if python is None:
        return []
    row = Row(f"Growth: at 1 kHz, {python.name}", ("CPU/sample without start", "peak memory", "samples"))
    peer = WEFT[0]
    shapes = [
        (f"2 of {2 + blocked} threads run", 2, blocked, 26)
        for blocked in ((0, 198) if settings.quick else (0, 198, 998))
    ]
    shapes += [
        (f"{depth:,} frames deep", 1, 0, depth) for depth in ((10, 100) if settings.quick else (10, 100, 1000, 10_000))
    ]
    for name, running, blocked, depth in shapes:
        settings.progress(f"{row.title}: {name}")
        with running_worker(python, running, blocked, depth=depth) as worker:
            runs = [
                Recording(peer, python, worker.pid, RATE_HZ, length).finish() for length in (1, 1 + settings.seconds)
            ]
        us, peak, samples = marginal_us(*runs), runs[1].peak_bytes, runs[1].told.samples
        row.add(
            name,
            [f"{us:.1f} µs", f"{peak / 1e6:.0f} MB", f"{samples:,}"],
            {"marginal_cpu_us": [us], "peak_bytes": [peak]},
        )
    row.notes.append(file_size(python, settings))
    return [row]


def file_size(python: Interpreter, settings: Settings) -> str:
    """An hour of eight threads, extrapolated from seconds: what is written at the start counts as often."""
    with running_worker(python, 8) as worker:
        lengths = (2, 2 + 2 * settings.seconds)
        short, long = (Recording(WEFT[0], python, worker.pid, RATE_HZ, length).finish() for length in lengths)
    grown = (long.file_bytes - short.file_bytes) / (long.told.seconds - short.told.seconds)
    megabytes = (short.file_bytes + grown * HOUR_S) / 1e6
    return f"An hour of eight threads at 1 kHz takes {megabytes:.0f} MB on disk (at most {MAX_FILE_MB} MB are wanted)."
