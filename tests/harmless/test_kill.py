"""weft killed by SIGKILL at random moments: its target goes on as if nothing had been.

A tracer that dies can leave its tracee stopped for ever, or with a signal that was never meant for it. So it is killed
at moments spread over all that it does: seizing, sampling at 10 kHz, between the stop of a thread and its release. A
few kills of each version make a quick test; WEFT_TEST_KILLS=500 makes the long one.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from interpreters import Interpreter
from running import StartTarget
from steady_check import assert_undisturbed
from weft_command import cpu_ns, is_let_go, is_traced, start_weft, wait_until, wait_until_traced

KILLS = int(os.environ.get("WEFT_TEST_KILLS", "2"))
LATEST_S = 0.6  # weft takes about 0.2 s to its first sample

WAYS = (
    ["-r", "10khz"],
    ["-r", "10khz", "-s"],
    ["-r", "10khz", "--mode", "gil"],
    ["-r", "1khz", "--mode", "cpu"],
)


@pytest.mark.serial
def test_the_target_survives_it(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN threads, children, timers and blocked reads WHEN weft is killed again and again THEN nothing shows it."""
    target = start_target(interpreter, "steady.py")
    seed = random.randrange(1 << 32)
    moments = random.Random(seed)
    print(f"seed {seed}")  # shown where the test fails
    met = 0
    for number in range(KILLS):
        way = moments.choice(WAYS)
        output = tmp_path / f"{number}.weft"
        weft = start_weft("record", "--collector", "ptrace", "-p", target.pid, "-o", output, *way)
        wait_until_traced(target.pid, weft)
        # Half of them soon after it has taken hold, half at any time.
        time.sleep(moments.uniform(0, 0.02 if number % 2 else LATEST_S))
        met += is_traced(target.pid)
        weft.kill()
        _, errors = weft.communicate()
        assert weft.returncode == -9, errors.decode()
        wait_until(lambda: is_let_go(target.pid), f"kill {number} ({way}) let go of every thread")
        before = cpu_ns(target.pid)
        wait_until(lambda: cpu_ns(target.pid) > before + 1_000_000, f"after kill {number} ({way}) it computes on")  # noqa: B023
    assert met > KILLS / 2, "the kills hit weft while it traced"
    assert target.process.poll() is None
    assert target.process.stdin is not None
    target.process.stdin.close()
    assert_undisturbed(target.next_line())
    assert target.process.wait(60) == 0, target.errors()
