"""How long threads wait, for what, and in which stack: against their own clocks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from interpreters import Interpreter, all_interpreters
from recordings import NATIVE_LOSSES, account_of, losses_of, record, stacks_of, woven_stacks_of
from running import CompileLibrary, StartTarget, Target
from weft_command import run_weft

from weft import Capture, Collector
from weft.profile.gil import Blame, blame
from weft.profile.tables import Profile, View
from weft.sample import State

SECONDS = 3
NEAR = 0.02

# Alone: where the target waits for a CPU, its clock and its states are apart by more than what is allowed.
pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs"),
]


def waited_in(target: Target, path: Path) -> dict[str, float]:
    """Seconds that the target has waited while it was recorded, by its own clock; by function."""
    assert target.process.stdin is not None
    target.process.stdin.close()
    waits = target.next_line()["waits"]
    with Capture(path) as capture:
        own = {process.id for process in capture.processes() if process.pid == target.pid}
        begin = max(thread.start_ns for thread in capture.threads() if thread.process in own)
        end = capture.written_ns
    sums: dict[str, float] = {}
    for since, until, function in waits:
        sums[function] = sums.get(function, 0) + max(0, min(until, end) - max(since, begin)) / 1e9
    return sums


def waited(target: Target, path: Path) -> float:
    """The same, in all."""
    return sum(waited_in(target, path).values())


def cpu_and_delay(pid: int) -> tuple[int, int]:
    """How long the threads of a process have been on a CPU, and have waited for one, in ns, by the kernel."""
    told = [list(map(int, file.read_bytes().split())) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(ran for ran, _, _ in told), sum(delayed for _, delayed, _ in told)


def told(path: Path, function: str) -> dict[State, float]:
    """Seconds in stacks whose innermost Python function this is, by state."""
    sums = dict.fromkeys(State, 0.0)
    for sampled in stacks_of(path):
        if sampled.frames and sampled.frames[-1].function.rpartition(".")[2] == function:
            sums[sampled.state] += sampled.weight_ns / 1e9
    return sums


@pytest.mark.parametrize(
    ("function", "state"), [("sleeps", State.SLEEPING), ("reads", State.IO), ("locks", State.LOCK)]
)
def test_waits(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, function: str, state: State
) -> None:
    """GIVEN a thread that sleeps, reads or waits for a lock THEN so long, in that function, is told in that state."""
    target = start_target(interpreter, "off_cpu.py", function)
    _, before = cpu_and_delay(target.pid)
    path = record(target.pid, tmp_path, rate_hz=200, seconds=SECONDS, collector=Collector.BPF)
    _, after = cpu_and_delay(target.pid)
    truth = waited(target, path)
    sums = told(path, function)
    assert truth > 0.5 * SECONDS
    # Once woken it has to wait for a CPU, which its clock counts as waiting.
    assert sums[State.RUNNABLE] <= (after - before) / 1e9 * (1 + NEAR) + NEAR * truth
    assert sums[state] + sums[State.RUNNABLE] == pytest.approx(truth, rel=NEAR), sums
    assert sum(sums[other] for other in State if other not in (state, State.RUNNING, State.RUNNABLE)) < NEAR * truth
    assert set(losses_of(path)) <= {"unseen", "late", *NATIVE_LOSSES}


def test_waits_for_a_cpu(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN two processes that compute on one CPU THEN one of them is ready, and not on it, for as long as the kernel
    says."""
    python = all_interpreters()[0]  # they wait all alike
    target, other = (start_target(python, "kernel.py", "computes") for _ in range(2))
    (cpu, *_) = os.sched_getaffinity(0)
    for each in (target, other):
        os.sched_setaffinity(each.pid, {cpu})
    ran, delayed = cpu_and_delay(target.pid)
    path = record(target.pid, tmp_path, rate_hz=200, seconds=SECONDS, collector=Collector.BPF)
    ran, delayed = (now - then for now, then in zip(cpu_and_delay(target.pid), (ran, delayed), strict=True))
    sums = dict.fromkeys(State, 0)
    for sampled in stacks_of(path):
        sums[sampled.state] += sampled.weight_ns
    assert 0.2 < delayed / (ran + delayed) < 0.8
    ready = sums[State.RUNNABLE] / (sums[State.RUNNING] + sums[State.RUNNABLE])
    assert ready == pytest.approx(delayed / (ran + delayed), abs=NEAR)


def test_waits_of_the_machine(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a process of which one thread sleeps and another is blocked throughout WHEN all of its name are recorded
    THEN the time of the sleep is told, in its function once Python is found; and the other thread is there."""
    target = start_target(interpreter, "off_cpu.py", "sleeps")
    path = tmp_path / "x.weft"
    name = Path(f"/proc/{target.pid}/comm").read_text().strip()
    run = run_weft("record", "-a", "--comm", name, "--mode", "wall", "-d", SECONDS, "-o", path)
    assert run.returncode == 0, run.stderr
    truth = waited(target, path)
    with Capture(path) as capture:
        processes = {process.id for process in capture.processes() if process.pid == target.pid}
        own = {thread.id for thread in capture.threads() if thread.process in processes}
        lost = sum(loss.weight_ns for loss in capture.losses() if loss.process in processes) / 1e9
    stacks = [sampled for sampled in woven_stacks_of(path) if sampled.thread in own]

    def seconds(state: State, within: str = "") -> float:
        times = (each.weight_ns for each in stacks if each.state is state and within in str(each.frames))
        return sum(times) / 1e9

    slept, ready = seconds(State.SLEEPING), seconds(State.RUNNABLE)
    assert truth > 0.5 * SECONDS
    assert truth * (1 - NEAR) - ready - lost < slept < truth * (1 + NEAR)
    assert seconds(State.SLEEPING, "sleeps") > 0.5 * truth
    assert seconds(State.IO, "off_cpu.py") > 0.5 * SECONDS


def test_often(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a thread that sleeps too often for a stack each time, in two functions THEN all of its time is told, and of
    its sleep each function's part is near to what the thread's own clock says."""
    target = start_target(interpreter, "off_cpu.py", "sleeps_often")
    path = record(target.pid, tmp_path, rate_hz=200, seconds=SECONDS, collector=Collector.BPF)
    truth = waited_in(target, path)
    with Capture(path) as capture:
        begin_ns = max(thread.start_ns for thread in capture.threads())
        whole = (capture.written_ns - begin_ns) / 1e9
        lost = sum(loss.weight_ns for loss in capture.losses()) / 1e9
    mine = [each for each in stacks_of(path) if any(frame.function == "sleeps_often" for frame in each.frames)]
    assert sum(each.weight_ns for each in mine) / 1e9 + lost == pytest.approx(whole, rel=NEAR)
    assert lost < 0.1 * whole
    # The clock counts what the thread does to fall asleep, and its waits for a CPU.
    sums = {name: sum(told(path, name).values()) for name in truth}
    assert account_of(path)["stays_estimated"] > 100
    for name in truth:
        assert sums[name] / sum(sums.values()) == pytest.approx(truth[name] / sum(truth.values()), abs=0.06)


def test_between_looks(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a thread that computes for some periods, sleeps for some, and sleeps on in another function WHEN it is
    recorded by looks THEN of its sleep each function's part is what the thread's own clock says."""
    target = start_target(interpreter, "off_cpu.py", "works_and_rests")
    path = record(target.pid, tmp_path, rate_hz=1000, seconds=2 * SECONDS)
    truth = waited_in(target, path)
    sums = {name: sum(told(path, name).values()) for name in truth}
    assert set(sums) == {"rests", "rests_on"}
    assert sum(sums.values()) == pytest.approx(sum(truth.values()), rel=2 * NEAR)
    for name in truth:
        assert sums[name] / sum(sums.values()) == pytest.approx(truth[name] / sum(truth.values()), abs=NEAR)


def blames(path: Path) -> list[Blame]:
    with Capture(path) as capture:
        return blame(capture, Profile.from_capture(capture, View(idle=True, all_frames=True)))


@pytest.mark.parametrize("holder", ["asleep", "at_work"])
def test_gil(
    interpreter: Interpreter,
    start_target: StartTarget,
    compile_library: CompileLibrary,
    tmp_path: Path,
    holder: str,
) -> None:
    """GIVEN a thread that waits for the GIL while C code holds it, asleep or at work THEN so long is told, and the
    function that called the C code is blamed."""
    library = interpreter.inside(compile_library(interpreter, "nap.c"))
    target = start_target(interpreter, "off_cpu.py", f"gil_{holder}", library)
    _, before = cpu_and_delay(target.pid)
    path = record(target.pid, tmp_path, rate_hz=200, seconds=SECONDS, collector=Collector.BPF)
    _, after = cpu_and_delay(target.pid)
    truth = waited(target, path)
    sums = told(path, "waits_for_gil")
    with Capture(path) as capture:
        lost = sum(loss.weight_ns for loss in capture.losses()) / 1e9
    assert lost < 0.05 * SECONDS
    assert sums[State.RUNNABLE] <= (after - before) / 1e9 * (1 + NEAR) + NEAR * truth

    def is_told(state: State) -> bool:
        # A wait is told in pieces of 50 ms: one whose switch the kernel kept to itself is lost, which is counted. To be
        # ready is a part of the wait, or of what comes before it: the nap's end.
        least = truth * (1 - NEAR) - lost - sums[State.RUNNABLE]
        return least < sums[state] < truth * (1 + NEAR)

    if interpreter.free_threaded:
        assert sums[State.GIL] == 0
        return
    assert truth > 0.3 * SECONDS
    if interpreter.stripped and interpreter.version < (3, 7):  # nothing tells where the GIL is: it is a lock
        assert is_told(State.LOCK), (truth, sums, lost)
        assert not blames(path)
        return
    assert is_told(State.GIL), (truth, sums, lost)
    told_blames = [each for each in blames(path) if each.waiter_function and each.waiter_function[0] == "waits_for_gil"]
    whole = sum(each.weight_ns for each in told_blames)
    assert whole / 1e9 == pytest.approx(sums[State.GIL], rel=NEAR)
    right = [
        each
        for each in told_blames
        if each.holder != each.waiter and each.holder_function and each.holder_function[0] == f"holds_gil_{holder}"
    ]
    assert sum(each.weight_ns for each in right) > 0.95 * whole, told_blames
    report = run_weft("report", path).stdout
    assert "Who makes whom wait for the GIL" in report
    assert f"holds_gil_{holder}" in report.partition("Who makes whom wait")[2]


def test_account_is_whole(
    interpreter: Interpreter, start_target: StartTarget, compile_library: CompileLibrary, tmp_path: Path
) -> None:
    """THEN running, ready, and each way to wait add up to the time of each thread."""
    library = interpreter.inside(compile_library(interpreter, "nap.c"))
    target = start_target(interpreter, "off_cpu.py", "gil_at_work", library)
    path = record(target.pid, tmp_path, rate_hz=1000, seconds=SECONDS, collector=Collector.BPF)
    sums: dict[Any, float] = {}
    for sampled in stacks_of(path):
        sums[sampled.thread] = sums.get(sampled.thread, 0) + sampled.weight_ns
    with Capture(path) as capture:
        spans = {thread.id: (thread.end_ns or capture.written_ns) - thread.start_ns for thread in capture.threads()}
        lost = sum(loss.weight_ns for loss in capture.losses())
    assert sum(sums.values()) + lost == pytest.approx(sum(spans.values()), rel=0.01)
