"""Shares of CPU time as they are: three kinds of work, of which each has a third.

This is where samplers that throw away what they could not read go wrong: what is easy to read gets too much. So do
those that see a thread less well in the kernel than in its own code. The target measures its own shares with its
thread's CPU clock. WEFT_SHARES_SAMPLES says how many samples to try for.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from privileges import PERF_EVENT_OPEN, filtered
from recordings import account_of, record, record_as, stacks_of
from running import StartTarget

from weft import Collector, Mode

SAMPLES = int(os.environ.get("WEFT_SHARES_SAMPLES", "4000"))
RATE_HZ = 2000


def tolerance(samples: int) -> float:
    """Percentage points that a share of a third may be off: 3 sigma of random samples, 1 of 20,000 and 0.5 of 80,000.

    Of fewer, 5 sigma: the tests are many.
    """
    return max(0.5, (300 if samples >= 20_000 else 500) * (2 / 9 / samples) ** 0.5)


@pytest.mark.serial
@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
@pytest.mark.parametrize(
    "kinds",
    [("loop", "calls", "c_code"), ("calls", "system_calls", "long_system_calls")],
    ids=["user", "kernel"],
)
def test_shares_are_right(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, kinds: tuple[str, ...], collector: Collector
) -> None:
    """GIVEN three kinds of work in turns of milliseconds WHEN recorded by CPU time THEN each has its third."""
    seconds = SAMPLES / RATE_HZ
    target = start_target(interpreter, "shares.py", 2 * seconds + 2, *kinds)
    capture = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=seconds, mode=Mode.CPU, collector=collector)
    weights = dict.fromkeys(kinds, 0)
    samples = 0
    for sampled in stacks_of(capture):
        for kind in {frame.function for frame in sampled.frames} & set(weights):
            weights[kind] += sampled.weight_ns
            samples += sampled.ticks
    assert samples > 100
    told = target.next_line()["cpu_s"]
    whole, true = sum(weights.values()), sum(told.values())
    off = {kind: 100 * (weight / whole - told[kind] / true) for kind, weight in weights.items()}
    print(f"{interpreter.name}: {samples:,} samples,", ", ".join(f"{kind} {each:+.2f}" for kind, each in off.items()))
    assert max(map(abs, off.values())) < tolerance(samples), (weights, told)


@pytest.mark.serial
@pytest.mark.parametrize(
    ("clock", "prefix", "collector"),
    [
        ("cpu", [], Collector.PTRACE),
        ("wall", filtered(PERF_EVENT_OPEN), Collector.PTRACE),
        ("wall", [], Collector.BPF),
    ],
    ids=["cpu", "wall", "bpf"],
)
def test_in_step(
    start_target: StartTarget, tmp_path: Path, clock: str, prefix: list[str], collector: Collector
) -> None:
    """GIVEN two functions in turns as long as a period of ours, by the clock that paces us THEN each has its half, and
    no tick is left out."""
    rate_hz, seconds, whole = 1000, 3, 6
    target = start_target(all_interpreters()[-1], "rhythm.py", whole, 1 / rate_hz, clock)
    capture = record_as(
        prefix, target.pid, tmp_path, rate_hz=rate_hz, seconds=seconds, mode=Mode.CPU, collector=collector
    )
    weights = {"first": 0, "second": 0}
    for sampled in stacks_of(capture):
        for function in {frame.function for frame in sampled.frames} & set(weights):
            weights[function] += sampled.weight_ns
    told = target.next_line()["cpu_s"]
    account = account_of(capture)
    shown, true = weights["first"] / sum(weights.values()), told["first"] / sum(told.values())
    assert abs(shown - true) < 5 * (0.25 / account["samples_taken"]) ** 0.5, (weights, told)
    by_cpu_time = clock == "cpu" or collector is Collector.BPF
    on_cpu = sum(told.values()) / whole if by_cpu_time else 1  # of the time
    assert account["samples_wanted"] > 0.9 * on_cpu * seconds * rate_hz


@pytest.mark.serial
def test_rate(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN the kernel's clocks, whose rates are drawn anew again and again THEN a second of CPU time has as many ticks
    as were asked for: within 4 sigma of a thousand rates from half of that to one and a half."""
    rate_hz, seconds = 1000, 10
    target = start_target(all_interpreters()[-1], "shares.py", seconds + 2, "loop")
    capture = record(target.pid, tmp_path, rate_hz=rate_hz, seconds=seconds, mode=Mode.CPU, collector=Collector.BPF)
    stacks = list(stacks_of(capture))
    ticks, weight_s = sum(each.ticks for each in stacks), sum(each.weight_ns for each in stacks) / 1e9
    assert weight_s > 1
    assert ticks / weight_s == pytest.approx(rate_hz, rel=4 * 12**-0.5 * (0.01 / weight_s) ** 0.5)
