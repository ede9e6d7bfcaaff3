"""A row of allocations: how many bytes each function has asked for, and what it costs a program to have that told."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean

import running
import ziglang

from benchmarks.install import ENVIRONMENTS
from benchmarks.launched import Alone, InProcess, Launch, Launcher, WeftAlloc, launch
from benchmarks.peers import PeerFailedError
from benchmarks.programs import TARGETS, known_to_all
from benchmarks.results import Row, Settings, spread
from weft import Capture, Profile

TIMES = 50  # rounds of targets/asks.py: 5 GB in a million calls
COLUMNS = ("most off", "off, in the mean", "more a call", "slow-down", "its whole run", "file")
Bytes = dict[str, float]  # by function
Round = tuple[Launch, Launch, Bytes]  # alone, recorded, and how far off its bytes are


def bytes_of_weft(output: Path) -> Bytes:
    """Of each function, and of what it calls."""
    sums: Bytes = {}
    with Capture(output) as capture:
        profile = Profile.from_capture(capture)
    for total in profile.totals:
        for function in {profile.frames[frame].function for frame in profile.stacks.path(total.stack)}:
            sums[function] = sums.get(function, 0) + total.weight_ns
    return sums


def bytes_of_memray(output: Path) -> Bytes:
    """Of the innermost Python functions: `memray stats` tells so many as are asked for."""
    told = output.with_suffix(".json")
    memray = next(ENVIRONMENTS.glob("in-process-*/bin/memray"))
    subprocess.run([memray, "stats", "--json", "-n", "1000", "-f", "-o", told, output], check=True, capture_output=True)
    sums: Bytes = {}
    for each in json.loads(told.read_text())["top_allocations_by_size"]:
        function = each["location"].partition(":")[0]
        sums[function] = sums.get(function, 0) + each["size"]
    return sums


def bytes_of_scalene(output: Path) -> Bytes:
    """Of the program's functions; it tells mebibytes."""
    files = json.loads(output.read_text())["files"].values()
    return {each["line"]: each["n_malloc_mb"] * (1 << 20) for file in files for each in file["functions"]}


LAUNCHERS: tuple[tuple[Launcher, Callable[[Path], Bytes]], ...] = (
    (WeftAlloc(), bytes_of_weft),
    (InProcess("memray", ["run", "-q", "-f"]), bytes_of_memray),
    (InProcess("memray --native", ["run", "-q", "-f", "--native"]), bytes_of_memray),
    (InProcess("scalene --memory", ["run", "--memory"], ["---"]), bytes_of_scalene),
)


def allocations(settings: Settings) -> Iterator[Row]:
    """A program that knows what it asks libc for, started by each recorder in turn."""
    python = known_to_all()
    if python is None:
        return
    row = Row(f"Allocated bytes: five functions that ask libc for known amounts, {python.name}", COLUMNS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = str(shutil.copy(TARGETS / "asks.py", folder))
        program = [script, str(compiled(folder)), str(TIMES)]
        rounds: dict[str, list[Round]] = {launcher.name: [] for launcher, _ in LAUNCHERS}
        for _ in range(settings.rounds):
            alone = launch(Alone(), python, program, folder)
            for launcher, bytes_of in LAUNCHERS:
                with row.trying(launcher, settings):
                    run = launch(launcher, python, program, folder)
                    rounds[launcher.name].append((alone, run, off_by(bytes_of(run.output), run.told["asked"])))
    for name, seen in rounds.items():
        if seen:
            add(row, name, seen)
    row.notes.append(
        "Off: how far a function's bytes are from what it has asked for, in percent of that. memray sees each call; "
        "weft one in 512 KiB, so that chance alone makes some 2 % here. scalene samples by the growth of the heap, and "
        "sees no memory that is given back at once. More a call: the CPU time that a call of malloc takes more, in a "
        "program that does nothing else, a million times. Slow-down: of ordinary work with fewer calls (json, "
        "sorting), in CPU time. Its whole run: the time from the start of the command to its end, against the "
        "program's own. Requests of libc alone are compared: none of Python's small objects."
    )
    yield row


def compiled(folder: Path) -> Path:
    """The library that asks."""
    library = folder / "allocates.so"
    command = [Path(ziglang.__file__).with_name("zig"), "cc", "-target", "x86_64-linux-gnu.2.17", "-O1", "-g"]
    source = running.TARGETS / "allocates.c"
    subprocess.run([*command, "-shared", "-fPIC", source, "-o", library], check=True)
    return library


def off_by(seen: Mapping[str, float], asked: Mapping[str, float]) -> dict[str, float]:
    """How far off each function's bytes are, as a part of what it has asked for. PeerFailedError: none was seen."""
    if not any(seen.get(function) for function in asked):
        raise PeerFailedError("it saw none of what was asked for")
    return {function: seen.get(function, 0) / bytes_ - 1 for function, bytes_ in asked.items()}


def add(row: Row, name: str, rounds: list[Round]) -> None:
    """A line. Errors are those of all rounds."""
    offs = [(function, off) for *_, errors in rounds for function, off in errors.items()]
    function, most = max(offs, key=lambda each: abs(each[1]))
    runs = [(run, alone) for alone, run, _ in rounds]
    more_ns = [1e9 * (run.told["asks_s"] - alone.told["asks_s"]) / alone.told["calls"] for run, alone in runs]
    slowed = [run.told["works_s"] / alone.told["works_s"] - 1 for run, alone in runs]
    whole = [run.wall_s / alone.wall_s for run, alone in runs]
    cells = [
        f"{function} {100 * most:+.1f} %",
        f"{100 * fmean(abs(off) for _, off in offs):.2f} %",
        spread(more_ns, "ns"),
        spread([100 * each for each in slowed], "%"),
        f"x {spread(whole, '')}",
        f"{runs[-1][0].file_bytes / 1e6:.2f} MB",
    ]
    measured = {
        "bytes_off": [off for _, off in offs],
        "ns_a_call": more_ns,
        "slowed": slowed,
        "file_bytes": [float(run.file_bytes) for run, _ in runs],
    }
    row.add(name, cells, measured)
