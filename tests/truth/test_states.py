"""Which thread states the kernel finds of a thread: of subinterpreters, without the GIL, among thousands."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import dropwhile
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters, without_names
from recordings import account_of, make_tables, record, stacks_of, woven_stacks_of
from running import CompileLibrary, StartTarget, Target
from weft_command import LIMIT_S, until
from woven_calls import has_gap

from weft import Capture, Collector, Mode, Options, Progress, record_process
from weft.sample import FrameKind, State

RATE_HZ = 1000
SECONDS = 1
SAMPLES = 400  # at least
JUNK_LEGAL = ["<module>", "outer", "inner"]
JUNK_PARTS = [JUNK_LEGAL[begin:end] for begin in range(4) for end in range(begin, 4)]
NEWER = [interpreter for interpreter in all_interpreters() if interpreter.minor >= (3, 10)]
ALL = [interpreter for interpreter in all_interpreters() if interpreter.minor >= (3, 6)]
# Whose binary runs under another name, in another place, and keeps anchors on the C stack.
HIDDEN = [each for each in NEWER if each.stripped and each.chroot is None and each.minor >= (3, 11)]
OLDER = [interpreter for interpreter in all_interpreters() if interpreter.minor <= (3, 10)]


def share_of(path: Path, *functions: str) -> float:
    """How much of the stacks that hold the last of these functions hold all of them, in this order from the root."""
    right = seen = 0
    for sampled in stacks_of(path):
        names = [frame.function for frame in sampled.frames]
        if functions[-1] in names:
            seen += sampled.ticks
            right += sampled.ticks if [name for name in names if name in functions] == list(functions) else 0
    assert seen > 50
    return right / seen


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
@pytest.mark.parametrize("python", ALL, ids=lambda each: each.name)
def test_a_subinterpreter(python: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector) -> None:
    """GIVEN a thread that has entered a subinterpreter and computes there THEN its stack is that of both."""
    target = start_target(python, "inside.py", "own")
    if "missing" in target.ready:
        pytest.skip("this build makes no subinterpreters")
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES, collector=collector)
    assert share_of(path, "around", "inside") > 0.99


def with_end_of_input(target: Target) -> Callable[[Progress], None]:
    """Watches a recording: after SAMPLES / 4 samples the target's input ends, SAMPLES later the recording does."""
    begin, seen = target.process.stdin, 0
    assert begin is not None

    def watch(progress: Progress) -> None:
        nonlocal seen
        taken = progress.account.get("samples_taken", 0)
        if taken >= SAMPLES / 4 and not begin.closed:
            begin.close()
            seen = taken
        enough(progress)

    enough = until(lambda it: begin.closed and it.account.get("samples_taken", 0) >= seen + SAMPLES)
    return watch


@pytest.mark.parametrize("python", ALL, ids=lambda each: each.name)
def test_a_subinterpreter_that_is_made_later(python: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a thread that has been sampled before it makes a subinterpreter THEN its stack is that of both since."""
    target = start_target(python, "inside.py", "later")
    if "missing" in target.ready:
        pytest.skip("this build makes no subinterpreters")
    path, watch = tmp_path / "later.weft", with_end_of_input(target)
    record_process(target.pid, path, Options(RATE_HZ, LIMIT_S, Mode.WALL, Collector.BPF), watch)
    assert any(frame.function == "before" for sampled in stacks_of(path) for frame in sampled.frames)
    assert share_of(path, "around", "inside") > 0.99


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
@pytest.mark.parametrize("python", NEWER, ids=lambda each: each.name)
def test_a_subinterpreter_of_another_thread(
    python: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN a thread that computes in a subinterpreter that another has made, whose name it bears up to 3.12."""
    target = start_target(python, "inside.py", "other")
    if "missing" in target.ready:
        pytest.skip("this build makes no subinterpreters")
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES, collector=collector)
    assert share_of(path, "around", "inside") > 0.99


def cuts_of(path: Path, tid: int) -> Iterator[bool]:
    """Of each sample of a thread that ran, in the order of time: whether its outer Python frames are missing."""
    with Capture(path) as capture:
        roots = {0: 0}
        for stack, parent, frame in capture.stacks():
            roots[stack] = roots[parent] or frame
        markers = {number for number, frames in capture.frames() if frames[0].function.startswith("[truncated: ")}
        (thread,) = [thread.id for thread in capture.threads() if thread.tid == tid]
        for runs in capture.runs(thread):
            for stack, state in zip(runs.stack, runs.state, strict=True):
                if state == State.RUNNING:
                    yield roots[stack] in markers


def test_one_of_many_threads(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a program that computes in its first thread, and has made 700 others since, which wait THEN its stacks are
    whole: its thread state is the last in the list."""
    target = start_target(interpreter, "crowd.py", 700)
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES, collector=Collector.BPF)
    account = account_of(path)
    assert account["stacks_in_kernel"] > 50
    assert share_of(path, "main", "spin") > 0.99
    # User mode tells the kernel of it at its first samples, which have the native stack alone.
    cut = list(dropwhile(bool, cuts_of(path, target.pid)))
    assert len(cut) > 50
    assert sum(cut) <= 0.01 * len(cut)


def test_states_that_come_and_go(
    interpreter: Interpreter, start_target: StartTarget, compile_library: CompileLibrary, tmp_path: Path
) -> None:
    """GIVEN a thread that Python did not make, and that gets a new thread state whenever it calls Python THEN its
    stacks are of the thread state that it has."""
    library = compile_library(interpreter, "foreign.c")
    target = start_target(interpreter, "foreign.py", interpreter.inside(library))
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES, collector=Collector.BPF)
    account = account_of(path)
    assert share_of(path, "called") > 0.99
    print(f"{interpreter.name}: {account['stacks_truncated']} of {account['samples_taken']} truncated")
    assert account["stacks_truncated"] <= 0.05 * account["samples_taken"]


def unmarked_of_junk(
    python: Interpreter, library: Path, start_target: StartTarget, folder: Path, collector: Collector
) -> int:
    """How many stacks of a thread that overwrites its own thread state, most of the time, have no Python frames and no
    mark; all others that are whole are true, others say that they are not, and what they tell is true."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown where the test fails
    target = start_target(python, "corrupts.py", python.inside(library), seed)
    make_tables(target.pid)
    path = record(target.pid, folder, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES, collector=collector)
    assert target.process.poll() is None, "it has survived"
    whole = cut = without = 0
    for sampled in woven_stacks_of(path):
        names = [frame.function for frame in sampled.frames if frame.kind is FrameKind.PYTHON]
        if has_gap(sampled.frames):
            assert names in JUNK_PARTS, sampled.frames
            cut += sampled.ticks
        else:
            assert names == JUNK_LEGAL[: len(names)], sampled.frames
            whole += sampled.ticks if names == JUNK_LEGAL else 0
            without += sampled.ticks if not names else 0
    again = account_of(path)["stacks_retaken"]
    print(f"{python.name} {collector.value}: {whole} whole, {cut} cut, {again} again, {without} without Python")
    assert whole > 20
    assert cut + again > 20, "it has met the junk"
    return without


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
def test_a_state_that_is_junk(
    interpreter: Interpreter,
    start_target: StartTarget,
    compile_library: CompileLibrary,
    tmp_path: Path,
    collector: Collector,
) -> None:
    """GIVEN a thread that overwrites its own thread state, most of the time THEN each stack without Python frames says
    that it lacks them."""
    library = compile_library(interpreter, "corrupts.c")
    assert unmarked_of_junk(interpreter, library, start_target, tmp_path, collector) == 0


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
@pytest.mark.parametrize("python", HIDDEN, ids=lambda each: each.name)
def test_a_state_that_is_junk_where_no_symbol_tells_the_eval_loop(
    python: Interpreter,
    start_target: StartTarget,
    compile_library: CompileLibrary,
    tmp_path: Path,
    collector: Collector,
) -> None:
    """GIVEN the same in a binary without a name for the eval loop THEN all do but the first ones, which cannot know."""
    binary = tmp_path / "hidden"
    binary.write_bytes(
        without_names(python.executable.read_bytes(), b"PyEval_EvalFrameEx", b"_PyEval_EvalFrameDefault")
    )
    binary.chmod(0o755)
    home = python.executable.parent.parent
    hidden = replace(python, command=["env", f"PYTHONHOME={home}", str(binary)], executable=binary)
    library = compile_library(python, "corrupts.c")
    assert unmarked_of_junk(hidden, library, start_target, tmp_path, collector) <= 10


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
def test_a_state_that_loses_its_thread(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN a thread in its one activation, in the eval loop, whose state does not name it any more THEN its stacks,
    without Python frames since, say that they lack them."""
    target = start_target(interpreter, "hides.py")
    make_tables(target.pid)
    path = tmp_path / "hides.weft"
    options = Options(RATE_HZ, LIMIT_S, Mode.CPU, collector)
    record_process(target.pid, path, options, with_end_of_input(target))
    sampled = woven_stacks_of(path)
    (own,) = {each.thread for each in sampled if "<module>" in [frame.function for frame in each.frames]}
    kinds = [
        (each, {frame.kind for frame in each.frames}) for each in sampled if each.thread == own
    ]  # the other one ends
    before = sum(each.ticks for each, of_it in kinds if FrameKind.PYTHON in of_it)
    lacking = [each for each, of_it in kinds if FrameKind.PYTHON not in of_it]
    without = sum(each.ticks for each in lacking)
    marked = sum(each.ticks for each in lacking if has_gap(each.frames))
    print(f"{interpreter.name} {collector.value}: {before} with Python, {without} without, {marked} marked")
    assert before > SAMPLES / 8
    assert without > SAMPLES / 2
    assert marked == without


@pytest.mark.serial  # the busier the machine, the later the kernel is told where the interpreter keeps its frames
@pytest.mark.parametrize("depth", [4, 30])
@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
@pytest.mark.parametrize("python", OLDER, ids=lambda each: each.name)
def test_a_state_that_names_the_past(
    python: Interpreter,
    start_target: StartTarget,
    compile_library: CompileLibrary,
    tmp_path: Path,
    collector: Collector,
    depth: int,
) -> None:
    """GIVEN a thread state that leads to frames that have ended, as many as run, or more, half of the time THEN stacks
    without frames say so, and none of these is told; but with a mark, until a stack has shown where the interpreter
    keeps its frames. From 3.11 on no chain of frames outlives them."""
    target = start_target(python, "past.py", python.inside(compile_library(python, "corrupts.c")), depth)
    make_tables(target.pid)
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=SAMPLES, collector=collector)
    whole = cut = first = 0
    for sampled in woven_stacks_of(path):
        names = [frame.function for frame in sampled.frames if frame.kind is FrameKind.PYTHON]
        if "past" in names:
            assert has_gap(sampled.frames), sampled.frames
            first += sampled.ticks
        elif "replace" in [frame.function for frame in sampled.frames]:
            lacks = any(frame.kind is FrameKind.MARKER and "native" not in frame.function for frame in sampled.frames)
            assert lacks or names == ["<module>", "main", "outer", "inner"], sampled.frames
            whole += 0 if lacks else sampled.ticks
            cut += sampled.ticks if lacks else 0
    again = account_of(path)["stacks_retaken"]
    print(f"{python.name} {collector.value}: {whole} whole, {cut} cut, {again} again, {first} at first")
    assert first < 20
    assert whole > 20
    assert cut + again > 20, "it has met the past"
