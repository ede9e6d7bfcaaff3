"""Stacks of a target that makes tens of millions of short calls a second, over a tree whose legal stacks are all known.

Its stack changes every few tens of nanoseconds, so a sampler that reads it while it runs shows mixtures of two stacks;
the grammar finds those that cannot exist. Nothing of the expectation comes from weft.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from privileges import PERF_EVENT_OPEN, filtered, ordinary
from recordings import NATIVE_LOSSES, account_of, losses_of, make_tables, record, record_as, stacks_of
from running import StartTarget
from storm_grammar import violation

from weft import Collector

RATE_HZ = 5000
SECONDS = float(os.environ.get("WEFT_STORM_SECONDS", "1.5"))
ENOUGH = 300  # stacks, for which a busy machine takes longer than SECONDS
SAMPLES = int(RATE_HZ * SECONDS / 2)


def assert_legal(interpreter: Interpreter, capture: Path, *losses: str) -> dict[str, int]:
    """Every stack of the capture is one that can exist, and none is cut off. Returns the account."""
    stacks = stacks_of(capture)
    wrong = {}
    for sampled in stacks:
        names = [(frame.function, frame.line) for frame in sampled.frames]
        if reason := violation(names):
            wrong[reason] = names
    account = account_of(capture)
    assert not wrong, (losses_of(capture), account)
    assert account["stacks_whole"] >= ENOUGH
    assert account["stacks_truncated"] == 0
    assert len(stacks) > 100, "a storm shows many different stacks"
    assert set(losses_of(capture)) <= {"late", "spared", "unseen", *NATIVE_LOSSES, *losses}
    assert account["native_truncated"] < 0.02 * account["samples_taken"]
    print(f"{interpreter.name}: {account['samples_taken']:,} samples, none impossible")
    return account


# The kernel takes 5,000 stacks a second whatever else runs; what empties the ring needs a CPU for them.
@pytest.mark.every_choice
@pytest.mark.parametrize(
    "collector", [Collector.PTRACE, Collector.PEEK, pytest.param(Collector.BPF, marks=pytest.mark.serial)]
)
def test_read_while_they_wait(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN a storm WHEN its thread is paced by its CPU clock THEN every stack is legal, and nothing was stopped."""
    target = start_target(interpreter, "storm.py", 200)
    make_tables(target.pid)
    capture = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, samples=2 * ENOUGH, collector=collector)
    account = assert_legal(interpreter, capture)
    assert account["stops"] == account["stacks_moving"] == 0


def test_read_while_stopped(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a storm WHEN the kernel gives no CPU clocks, as in containers, THEN every stack is legal."""
    target = start_target(interpreter, "storm.py", 200)
    capture = record_as(filtered(PERF_EVENT_OPEN), target.pid, tmp_path, rate_hz=RATE_HZ, samples=SAMPLES)
    account = assert_legal(interpreter, capture)
    assert account["stops"] > 0
    assert account["stacks_waiting"] == account["stacks_moving"] == 0
    assert account["stops"] + account["stacks_still"] >= account["samples_taken"]


@pytest.mark.serial
@pytest.mark.usefixtures("paranoid")
def test_read_by_an_ordinary_user(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a storm of a user without privileges WHEN he records it THEN every stack is legal, and nothing stopped.

    His readers have to be content with fairness: a thread can have moved on before they run.
    """
    command = [*ordinary(interpreter.chroot or Path("/")), interpreter.command[-1]]
    target = start_target(replace(interpreter, command=command), "storm.py", 200)
    capture = record_as(ordinary(), target.pid, tmp_path, rate_hz=RATE_HZ, samples=SAMPLES)
    account = assert_legal(interpreter, capture, "torn")
    assert account["stops"] == 0
    assert losses_of(capture).get("torn", 0) < 0.01 * account["samples_taken"]


def test_the_judge_sees_torn_stacks(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN the same storm WHEN two stacks of it are mixed as a torn read mixes them THEN the grammar objects to most.

    Else the test above could not fail.
    """
    target = start_target(all_interpreters()[0], "storm.py", 200)
    stacks = [
        [(frame.function, frame.line) for frame in sampled.frames]
        for sampled in stacks_of(record(target.pid, tmp_path, rate_hz=2000, seconds=0.5, samples=1000))
    ]
    deep = [stack for stack in stacks if len(stack) > 8]
    torn = [one[: len(one) // 2] + other[len(one) // 2 + 1 :] for one, other in pairwise(deep)]
    assert len(torn) > 50
    assert sum(bool(violation(stack)) for stack in torn) > len(torn) / 2
