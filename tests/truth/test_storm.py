"""Stacks of a target that makes tens of millions of short calls a second, over a tree whose legal stacks are all known.

Its stack changes every few tens of nanoseconds, so a sampler that reads it while it runs shows mixtures of two stacks;
the grammar finds those that cannot exist. Nothing of the expectation comes from weft.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from recordings import account_of, losses_of, record, stacks_of
from running import StartTarget
from storm_grammar import violation

from weft import Collector

RATE_HZ = 5000
SECONDS = float(os.environ.get("WEFT_STORM_SECONDS", "1.5"))
ENOUGH = 300  # stacks; a machine under load takes fewer than RATE_HZ * SECONDS


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.PEEK])
def test_every_stack_is_legal(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN a storm WHEN it is recorded by CPU clocks THEN every stack is one that can exist, and none is cut off."""
    target = start_target(interpreter, "storm.py", 60)
    capture = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, collector=collector)
    stacks = stacks_of(capture)
    wrong = {}
    for sampled in stacks:
        names = [(frame.function, frame.line) for frame in sampled.frames]
        if reason := violation(names):
            wrong[reason] = names
    account = account_of(capture)
    assert not wrong
    assert account["stacks_whole"] >= ENOUGH
    assert account["stacks_truncated"] == 0
    assert len(stacks) > 100, "a storm shows many different stacks"
    assert set(losses_of(capture)) <= {"late", "spared", "unseen"}
    assert account["stops"] == account["stacks_moving"] == 0
    print(f"{interpreter.name}: {account['samples_taken']:,} samples, none impossible")


def test_the_judge_sees_torn_stacks(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN the same storm WHEN two stacks of it are mixed as a torn read mixes them THEN the grammar objects to most.

    Else the test above could not fail.
    """
    target = start_target(all_interpreters()[0], "storm.py", 60)
    stacks = [
        [(frame.function, frame.line) for frame in sampled.frames]
        for sampled in stacks_of(record(target.pid, tmp_path, rate_hz=2000, seconds=2))
    ]
    deep = [stack for stack in stacks if len(stack) > 8]
    torn = [one[: len(one) // 2] + other[len(one) // 2 + 1 :] for one, other in pairwise(deep)]
    assert len(torn) > 50
    assert sum(bool(violation(stack)) for stack in torn) > len(torn) / 2
