"""Woven stacks of a target whose Python frames tell by their names which C function has called each of them.

Nothing of the expectation comes from weft: `via_sorted` can only be called by a sort, and `descend` only by Python.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from interpreters import Interpreter, all_interpreters
from recordings import Sampled, account_of, losses_of, make_tables, record, woven_stacks_of
from running import StartTarget
from woven_calls import CALLERS, calls, has_doubt, has_gap, is_proven, kind_of, share, wrong_calls

from weft import Collector
from weft.target.code import ANONYMOUS

RATE_HZ = 2000
SECONDS = float(os.environ.get("WEFT_WOVEN_SECONDS", "2"))
SAMPLES = int(1000 * SECONDS)  # at least
DEEP = 400  # calls, which take long to read


def kinds_of(stacks: list[Sampled]) -> tuple[set[str], list[set[str]]]:
    """The kinds of calls that were seen; and those that the same native frames stand for, where these are several.

    Without symbols too the same functions lie between the same kinds of frames only. JIT code is any function's."""
    places: dict[tuple[tuple[str, str], ...], set[str]] = {}
    for sampled in stacks:
        if has_gap(sampled.frames):
            continue  # counted by the test
        for name, between in [*calls(sampled.frames)][1:]:
            place = tuple((frame.function, frame.file) for frame in between if frame.module != ANONYMOUS)
            places.setdefault(place, set()).add(kind_of(name))
    return {kind for kinds in places.values() for kind in kinds}, [kinds for kinds in places.values() if len(kinds) > 1]


@pytest.mark.every_choice
@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
def test_woven(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector) -> None:
    """GIVEN Python that calls C that calls Python, nested by chance THEN between each two Python frames lie the native
    frames of that call, and no others."""
    target = start_target(interpreter, "woven.py", 200)
    make_tables(target.pid)
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES, collector=collector)
    account = account_of(path)
    stacks = woven_stacks_of(path)
    seen, mixed = kinds_of(stacks)
    if not interpreter.stripped:
        wrong = [call for sampled in stacks if not has_gap(sampled.frames) for call in wrong_calls(sampled.frames)]
        assert not wrong, wrong[:5]
    assert not mixed
    assert seen == {"python", *CALLERS}
    assert account["native_truncated"] <= 0.02 * account["samples_taken"]
    woven = account["samples_taken"] - account["native_truncated"]
    assert woven > SAMPLES / 2
    assert account["seams_counted"] == 0
    assert share(stacks, lambda sampled: has_doubt(sampled.frames) and not has_gap(sampled.frames)) < 0.001
    assert share(stacks, is_proven) > 0.98
    print(f"{interpreter.name}: {account['samples_taken']:,} samples, {share(stacks, is_proven):.4%} all proven")


@pytest.mark.parametrize(
    "jit", [python for python in all_interpreters() if python.minor >= (3, 14)], ids=lambda python: python.name
)
def test_jit(jit: Interpreter, start_target: StartTarget, tmp_path: Path, lack: Callable[[str], NoReturn]) -> None:
    """GIVEN code that CPython's own JIT compiler has made, among the C that calls Python THEN stacks go through it."""
    if subprocess.run(
        [*jit.command, "-c", "import sys; sys.exit(not sys._jit.is_available())"], check=False
    ).returncode:
        lack(f"{jit.name} was built without its JIT compiler")
    target = start_target(jit, "woven.py", 200, env={"PYTHON_JIT": "1"})
    make_tables(target.pid)
    stacks = woven_stacks_of(record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES))
    through = [sampled for sampled in stacks if any(frame.module == ANONYMOUS for frame in sampled.frames)]
    assert sum(sampled.ticks for sampled in through) > 100
    seen, mixed = kinds_of(stacks)
    assert seen == {"python", *CALLERS}
    assert not mixed
    if jit.minor == (3, 15):  # 3.14 tells no names
        told = {frame.function for sampled in through for frame in sampled.frames if frame.module == ANONYMOUS}
        assert "py::jit:executor" in told
    print(f"{jit.name}: {share(through, is_proven):.4%} of stacks through JIT code all proven")
    assert share(through, is_proven) > 0.9  # new code is met before it is looked for


@pytest.mark.serial
@pytest.mark.parametrize(
    "python",
    [python for python in all_interpreters() if python.minor in ((2, 7), (3, 13))],
    ids=lambda python: python.name,
)
def test_beside_others(python: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a CPU that others have in turns with the program THEN its ticks tell where it stands, as they do alone.

    While late readers were told by their tick's age (design 0001), 0.1 to 1.6 % were taken again; since, 0.02 to 0.16.
    """
    samples = 4 * SAMPLES
    target, *others = (start_target(python, "woven.py", 200, DEEP) for _ in range(3))
    for program in (target, *others):
        os.sched_setaffinity(program.pid, {min(os.sched_getaffinity(0))})
    make_tables(target.pid)
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=samples)
    account = account_of(path)
    assert account["samples_taken"] >= samples
    assert account["stacks_retaken"] <= 0.005 * account["samples_taken"]
    assert losses_of(path).get("no-registers", 0) == 0
