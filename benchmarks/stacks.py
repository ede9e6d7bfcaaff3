"""A row of stacks beside gdb's: what each tool shows of stopped programs, and who is right about every difference."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import ziglang
from interpreters import CACHE, Interpreter
from running import TARGETS as TESTS_TARGETS

from benchmarks.dumpers import (
    NAMELESS,
    NATIVE,
    OTHER,
    PYTHON,
    Dumper,
    Gdb,
    PerfDump,
    Place,
    PySpyDump,
    PystackDump,
    WeftDump,
)
from benchmarks.peers import PeerFailedError
from benchmarks.programs import TARGETS, known_to_all, running_program
from benchmarks.results import Row, Settings

KINDS = {
    "sorted": "sorted() with a key function",
    "ctypes": "a callback of libc's qsort, by ctypes",
    "numpy": "a ufunc of a Python function",
    "re": "re.sub with a function",
    "all": "functools.reduce, sorted and max, nested",
    "weakref": "a callback of a weak reference",
    "pool": "a thread of a pool",
    "greenlet": "a greenlet",
    "cython": "methods of Cython",
}
QUICKLY = ("sorted", "greenlet")
EVAL = "PyEval_"  # _PyEval_EvalFrameDefault and what calls it stand for the Python frames that are shown in their place
PAGE = "stacks.md"


@dataclass
class Difference:
    """How a stack differs from gdb's: of each kind, how many frames gdb has, and how many are shown in order."""

    shown: dict[str, int] = field(default_factory=lambda: {PYTHON: 0, NATIVE: 0})
    whole: dict[str, int] = field(default_factory=lambda: {PYTHON: 0, NATIVE: 0})
    missing: list[Place] = field(default_factory=list)
    misplaced: list[Place] = field(default_factory=list)  # gdb has them elsewhere
    unknown: list[Place] = field(default_factory=list)  # gdb does not have them
    nameless: int = 0  # shown without a name: nobody can tell which of gdb's they are


def compare(stack: Sequence[Place], by_gdb: Sequence[Place]) -> Difference:
    """Root first. What lies outside of another stack's activation may be shown or not."""
    stack, by_gdb = _tidy(stack), _tidy(by_gdb)
    inner = max((number + 1 for number, place in enumerate(by_gdb) if place.kind == OTHER), default=0)
    common = _common(stack, by_gdb)
    difference = Difference()
    in_stack, in_gdb = {here for here, _ in common}, {there for _, there in common}
    for number, place in enumerate(by_gdb):
        if number >= inner:
            difference.whole[place.kind] += 1
            difference.shown[place.kind] += number in in_gdb
            if number not in in_gdb:
                difference.missing.append(place)
    for number, place in enumerate(stack):
        if number not in in_stack and place.function == NAMELESS:
            difference.nameless += 1
        elif number not in in_stack:
            (difference.misplaced if place in by_gdb else difference.unknown).append(place)
    return difference


def _tidy(stack: Sequence[Place]) -> list[Place]:
    """Without the eval loop; what follows itself, as a wrapper does its body in the same name, is one."""
    places = [place for place in stack if place.kind != NATIVE or not place.function.lstrip("_").startswith(EVAL)]
    return [place for key, run in groupby(places) for place in (run if key.kind == PYTHON else [key])]


def _common(one: Sequence[Place], other: Sequence[Place]) -> list[tuple[int, int]]:
    """Pairs of a longest common subsequence."""
    lengths = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for here in reversed(range(len(one))):
        for there in reversed(range(len(other))):
            same = one[here] == other[there]
            skipped = max(lengths[here + 1][there], lengths[here][there + 1])
            lengths[here][there] = lengths[here + 1][there + 1] + 1 if same else skipped
    pairs, here, there = [], 0, 0
    while here < len(one) and there < len(other):
        if one[here] == other[there]:
            pairs.append((here, there))
            here, there = here + 1, there + 1
        elif lengths[here + 1][there] >= lengths[here][there + 1]:
            here += 1
        else:
            there += 1
    return pairs


def stacks(settings: Settings) -> Iterator[Row]:
    """Stopped programs, each looked at by all tools in turn."""
    python = known_to_all()
    if python is None or python.minor != (3, 13):  # gdb_stack.py knows that version
        return
    row = Row(
        f"Stacks of stopped programs, beside gdb's, {python.name}",
        ("Python frames", "C frames", "at a wrong place", "not in gdb's stack", "without a name", "programs"),
    )
    tools: Sequence[Dumper] = (WeftDump(), WeftDump(all_frames=True), PySpyDump(), PystackDump(), PerfDump())
    found: dict[str, list[Difference]] = {tool.name: [] for tool in tools}
    page = [PREFACE.format(python=python.name)]
    for kind in QUICKLY if settings.quick else KINDS:
        settings.progress(f"{row.title}: {kind}")
        try:
            page += _looked_at(kind, python, tools, found, row)
        except (PeerFailedError, OSError, subprocess.SubprocessError) as error:
            row.missing[f"gdb, {kind}"] = str(error)
    for name, differences in found.items():
        if differences:
            _add(row, name, differences)
    row.notes.append(
        f"Of each kind of frame, how many of gdb's are shown, in its order. [{PAGE}]({PAGE}) has each program's stack "
        "and all differences. weft dump leaves out the interpreter's own machinery, which --all-frames shows; py-spy "
        "leaves out all of the interpreter by design, pystack a part. perf, by unwind tables, has the stack that the "
        "program leaves its CPU with, of frames that are not inlined, and knows no Python (it runs without -X perf). A "
        "wrong place is a frame that gdb has elsewhere in the stack. Without a name: none that could be compared."
    )
    row.pages[PAGE] = "\n".join(page)
    yield row


def _looked_at(
    kind: str, python: Interpreter, tools: Sequence[Dumper], found: dict[str, list[Difference]], row: Row
) -> list[str]:
    """One program; gives its part of the page."""
    with running_stack(kind, python) as (pid, tid):
        by_gdb = Gdb().stack(pid, tid)
        page = [f"## {kind}: {KINDS[kind]}", "", "By gdb, root first:", "", "```", _listed(by_gdb), "```", ""]
        for tool in tools:
            try:
                difference = compare(tool.stack(pid, tid), by_gdb)
            except PeerFailedError as error:
                row.missing[f"{tool.name}, {kind}"] = str(error)
                continue
            found[tool.name].append(difference)
            page += [f"- **{tool.name}**: {_told(difference)}"]
    return [*page, ""]


@contextlib.contextmanager
def running_stack(kind: str, python: Interpreter) -> Iterator[tuple[int, int]]:
    """A program that has come to its read: its process and the thread. PeerFailedError: it needs what is not there."""
    with tempfile.TemporaryDirectory() as name:
        packages = CACHE / f"packages-{python.minor[0]}.{python.minor[1]}"
        if kind in ("numpy", "greenlet") and not packages.exists():
            raise PeerFailedError(f"there is no {packages.name} in the cache")
        if kind == "cython":
            _build_cython(Path(name), python)
        with running_program(python, TARGETS / "stacked.py", kind, name, packages) as target:
            yield target.pid, target.ready["tid"]


def _build_cython(folder: Path, python: Interpreter) -> None:
    """fixture.so, of the tests' fixture.pyx."""
    shutil.copy(TESTS_TARGETS / "fixture.pyx", folder)
    ask = [*python.command, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"]
    include = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
    cython = CACHE / "cython-3"
    if not cython.exists() or not (Path(include) / "Python.h").exists():
        raise PeerFailedError("there is no Cython in the cache, or no headers of Python's")
    env = {"PYTHONPATH": str(cython), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-m", "cython", "fixture.pyx"], cwd=folder, env=env, check=True)
    zig = Path(ziglang.__file__).with_name("zig")
    flags = ["-target", "x86_64-linux-gnu.2.17", "-O2", "-g", "-shared", "-fPIC", "-I", include]
    subprocess.run([zig, "cc", *flags, "fixture.c", "-o", "fixture.so"], cwd=folder, check=True)


def _add(row: Row, name: str, differences: Sequence[Difference]) -> None:
    """A line: sums over the programs."""
    parts = []
    for kind in (PYTHON, NATIVE):
        parts += [sum(each.shown[kind] for each in differences), sum(each.whole[kind] for each in differences)]
    misplaced = sum(len(each.misplaced) for each in differences)
    unknown = sum(len(each.unknown) for each in differences)
    cells = [
        f"{parts[0]} of {parts[1]}",
        f"{parts[2]} of {parts[3]}",
        f"{misplaced}",
        f"{unknown}",
        f"{sum(each.nameless for each in differences)}",
        f"{len(differences)}",
    ]
    measured = {"python_shown": [parts[0] / parts[1]], "c_shown": [parts[2] / parts[3]]}
    row.add(name, cells, {**measured, "misplaced": [misplaced], "not_in_gdb": [unknown]})


def _listed(stack: Sequence[Place]) -> str:
    """One line a run of frames of a kind."""
    runs = [(kind, " > ".join(place.function for place in run)) for kind, run in groupby(stack, lambda each: each.kind)]
    return "\n".join(f"{kind:<7}{functions}" for kind, functions in runs)


def _told(difference: Difference) -> str:
    """In words."""
    parts = [f"{difference.shown[kind]} of {difference.whole[kind]} {kind} frames" for kind in (PYTHON, NATIVE)]
    groups = {
        "not shown": difference.missing,
        "at a wrong place": difference.misplaced,
        "not in gdb's stack": difference.unknown,
    }
    for what, places in groups.items():
        if places:
            names = Counter(place.function for place in places)
            told = (f"`{name}`{f' {count} times' if count > 1 else ''}" for name, count in names.items())
            parts.append(f"{what}: {', '.join(told)}")
    if difference.nameless:
        parts.append(f"without a name: {difference.nameless}")
    return "; ".join(parts) + "."


PREFACE = """# Stacks of stopped programs, beside gdb's

Written by the bench, on {python}. Programs wait in a read, through Python and C that call each other
(`benchmarks/targets/stacked.py`). gdb's stack is the measure: its frames by the DWARF of the binaries, inlined ones
too; an activation of the interpreter is replaced by the Python frames that it runs, from the interpreter's own list up
to the entry frame that is a local variable of it. Names are compared without what tools write around them (arguments,
`__GI_`, `.cold`); `?` has no name; a function that follows itself counts once. `other` is an activation of another
greenlet, on the same C stack: what is outside of it may be shown or not. [truth.md](../truth.md) says what explains the
differences.
"""
