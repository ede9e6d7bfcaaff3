"""Two collectors that have nothing in common but what they read: of one target they tell the same functions."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from recordings import record, woven_stacks_of
from running import StartTarget

from weft import Collector, Mode
from weft.sample import FrameKind

SECONDS, TURNS, RATE_HZ = 4, 4, 2000
KINDS = ("loop", "calls", "c_code", "system_calls")
WORTH_IT = 0.01  # of all samples; what is rarer has no share to speak of

Shares = Counter[tuple[str, str]]


def functions_of(path: Path) -> tuple[Shares, Shares]:
    """Samples by the Python function, and by the native or Python function, that they were in: (its kind, its name)."""
    python, innermost = Shares(), Shares()
    for sampled in woven_stacks_of(path):
        users = [frame for frame in sampled.frames if frame.kind is not FrameKind.KERNEL]
        if not users:
            continue
        innermost[(users[-1].kind.name, users[-1].function)] += sampled.ticks
        of_python = [frame for frame in users if frame.kind is FrameKind.PYTHON]
        python[("PYTHON", of_python[-1].function if of_python else "")] += sampled.ticks
    return python, innermost


@pytest.mark.serial
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")
@pytest.mark.parametrize("python", [all_interpreters()[0], all_interpreters()[-1]], ids=str)
def test_bpf_and_ptrace(python: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN one process, recorded by both in turn THEN each function has the same share, within 5 sigma."""
    target = start_target(python, "shares.py", 2 * SECONDS + 10, *KINDS)
    told = {collector: (Shares(), Shares()) for collector in (Collector.BPF, Collector.PTRACE)}
    for turn in range(TURNS):  # what the machine does beside it, and how fast the program's turns are, falls on both
        for collector, shares in told.items():
            folder = tmp_path / f"{collector.value}-{turn}"
            folder.mkdir()
            path = record(
                target.pid, folder, rate_hz=RATE_HZ, seconds=SECONDS / TURNS, mode=Mode.CPU, collector=collector
            )
            for share, more in zip(shares, functions_of(path), strict=True):
                share += more
    for one, other in zip(told[Collector.BPF], told[Collector.PTRACE], strict=True):
        samples, others = one.total(), other.total()
        assert min(samples, others) > SECONDS * RATE_HZ / 4
        of_both = one + other
        often = [function for function, count in of_both.items() if count > WORTH_IT * of_both.total()]
        assert len(often) >= len(KINDS)
        for function in often:
            share = of_both[function] / of_both.total()
            sigma = (share * (1 - share) * (1 / samples + 1 / others)) ** 0.5
            assert abs(one[function] / samples - other[function] / others) < 5 * sigma, (function, one, other)
