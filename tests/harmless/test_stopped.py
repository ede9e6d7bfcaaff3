"""Stops that are not weft's own: SIGSTOP to the target or to weft, and another tracer."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from running import StartTarget, Target
from steady_check import assert_undisturbed
from weft_command import (
    assert_one_line,
    cpu_ns,
    is_let_go,
    is_traced,
    run_weft,
    running_weft,
    task_states,
    wait_until,
    wait_until_traced,
)

from weft import Capture

A_WHILE_S = 0.5


@pytest.fixture
def newest() -> Interpreter:
    """One version, for what has nothing to do with the version."""
    return all_interpreters()[-1]


def finished(target: Target) -> None:
    """End the target, and see that nothing has disturbed it."""
    assert target.process.stdin is not None
    target.process.stdin.close()
    assert_undisturbed(target.next_line())
    assert target.process.wait(60) == 0, target.errors()


def runs(pid: int) -> bool:
    """Whether it uses CPU time just now."""
    before = cpu_ns(pid)
    time.sleep(0.05)
    return cpu_ns(pid) > before + 1_000_000


def stands(pid: int) -> bool:
    """Whether every thread is stopped: by a signal (T), or held there by its tracer (t)."""
    return all(state in "tT" for state, _ in task_states(pid).values())


def stands_still(pid: int) -> bool:
    """Whether it has ceased to run; a thread that looks as if it had stopped may be held by its tracer just then."""
    before = cpu_ns(pid)
    time.sleep(0.05)
    return stands(pid) and cpu_ns(pid) == before


def test_a_stopped_target_stays_stopped(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a recording WHEN the target is stopped and continued by its user THEN so it is, and by nobody else."""
    target = start_target(interpreter, "steady.py")
    with running_weft(
        "record", "--collector", "ptrace", "-p", target.pid, "-r", "2khz", "-o", tmp_path / "x.weft"
    ) as weft:
        wait_until_traced(target.pid, weft)
        wait_until(lambda: runs(target.pid), "it runs under weft")
        for _ in range(3):
            os.kill(target.pid, signal.SIGSTOP)
            wait_until(lambda: stands_still(target.pid), "it has stopped")
            used = cpu_ns(target.pid)
            time.sleep(A_WHILE_S)
            assert stands(target.pid)
            assert cpu_ns(target.pid) < used + 10_000_000
            os.kill(target.pid, signal.SIGCONT)
            wait_until(lambda: runs(target.pid), "it goes on")
        weft.send_signal(signal.SIGINT)
        _, errors = weft.communicate()
        assert weft.returncode == 0, errors.decode()
    finished(target)


def test_a_target_that_is_stopped_already(newest: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a stopped target WHEN it is recorded and let go of THEN it is still stopped, and SIGCONT continues it."""
    target = start_target(newest, "steady.py")
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: stands(target.pid), "it has stopped")
    run = run_weft("record", "--collector", "ptrace", "-p", target.pid, "-d", 0.5, "-o", tmp_path / "x.weft")
    assert run.returncode == 0, run.stderr
    assert stands(target.pid)
    assert is_let_go(target.pid) or all(tracer == 0 for _, tracer in task_states(target.pid).values())
    os.kill(target.pid, signal.SIGCONT)
    wait_until(lambda: runs(target.pid), "it goes on")
    finished(target)


def test_a_stopped_target_whose_weft_is_killed(newest: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a target that its user has stopped WHEN weft is killed THEN it stays stopped until it is continued."""
    target = start_target(newest, "steady.py")
    with running_weft(
        "record", "--collector", "ptrace", "-p", target.pid, "-r", "2khz", "-o", tmp_path / "x.weft"
    ) as weft:
        wait_until_traced(target.pid, weft)
        os.kill(target.pid, signal.SIGSTOP)
        wait_until(lambda: stands(target.pid), "it has stopped")
        weft.kill()
    wait_until(lambda: not is_traced(target.pid), "weft has let go of it")
    time.sleep(A_WHILE_S)
    assert all(state == "T" for state, _ in task_states(target.pid).values())
    os.kill(target.pid, signal.SIGCONT)
    wait_until(lambda: runs(target.pid), "it goes on")
    finished(target)


def test_weft_itself_is_stopped(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN weft stopped at any moment (Ctrl-Z), with a thread of the target in its hand perhaps.

    What it holds stands still until it goes on (ptrace allows no better); then everything goes on, and nothing is lost.
    """
    target = start_target(interpreter, "steady.py")
    with running_weft(
        "record", "--collector", "ptrace", "-p", target.pid, "-r", "5khz", "-o", tmp_path / "x.weft"
    ) as weft:
        wait_until_traced(target.pid, weft)
        for _ in range(3):
            time.sleep(0.1)
            weft.send_signal(signal.SIGSTOP)
            time.sleep(A_WHILE_S)
            weft.send_signal(signal.SIGCONT)
            wait_until(lambda: runs(target.pid), "the target goes on")
        weft.send_signal(signal.SIGINT)
        _, errors = weft.communicate()
        assert weft.returncode == 0, errors.decode()
    finished(target)


class TestAnotherTracer:
    def test_it_was_first(
        self, newest: Interpreter, start_target: StartTarget, program: Callable[[str], str], tmp_path: Path
    ) -> None:
        """GIVEN a target under strace THEN weft says so in one line, and what can be done."""
        target = start_target(newest, "steady.py")
        with subprocess.Popen([program("strace"), "-f", "-o", "/dev/null", "-p", str(target.pid)]) as strace:
            wait_until(lambda: is_traced(target.pid), "strace traces the target")
            line = assert_one_line(
                run_weft("record", "--collector", "ptrace", "-p", target.pid, "-d", 1, "-o", tmp_path / "x.weft")
            )
            assert f"traced by process {strace.pid}" in line
            assert "--collector peek" in line
            run = run_weft("record", "-p", target.pid, "-d", 1, "--collector", "peek", "-o", tmp_path / "x.weft")
            assert run.returncode == 0, run.stderr
            strace.send_signal(signal.SIGINT)
        with Capture(tmp_path / "x.weft") as capture:
            assert capture.account()["samples_wanted"] > 0
        finished(target)

    def test_it_comes_second(
        self, newest: Interpreter, start_target: StartTarget, program: Callable[[str], str], tmp_path: Path
    ) -> None:
        """GIVEN a recording WHEN strace tries the same target THEN strace is refused, and the recording goes on."""
        target = start_target(newest, "steady.py")
        with running_weft("record", "--collector", "ptrace", "-p", target.pid, "-o", tmp_path / "x.weft") as weft:
            wait_until_traced(target.pid, weft)
            strace = subprocess.run(
                [program("strace"), "-o", "/dev/null", "-p", str(target.pid)],
                capture_output=True,
                check=False,
                timeout=60,
            )
            assert strace.returncode != 0
            goes_on_until_ns = cpu_ns(target.pid) + 200_000_000
            wait_until(lambda: cpu_ns(target.pid) > goes_on_until_ns, "the target goes on")
            weft.send_signal(signal.SIGINT)
            _, errors = weft.communicate()
            assert weft.returncode == 0, errors.decode()
        with Capture(tmp_path / "x.weft") as capture:
            assert capture.account()["samples_taken"] > 0
        finished(target)
