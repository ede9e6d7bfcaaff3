"""Woven stacks of a target whose Python frames tell by their names which C function has called each of them.

Nothing of the expectation comes from weft: `via_sorted` can only be called by a sort, and `descend` only by Python.
"""

from __future__ import annotations

import os
from pathlib import Path

from interpreters import Interpreter
from recordings import account_of, record, woven_stacks_of
from running import StartTarget
from woven_calls import CALLERS, calls, has_doubt, has_gap, is_proven, kind_of, share, wrong_calls

RATE_HZ = 2000
SECONDS = float(os.environ.get("WEFT_WOVEN_SECONDS", "3"))


def test_woven(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN Python that calls C that calls Python, nested by chance THEN between each two Python frames lie the native
    frames of that call, and no others."""
    target = start_target(interpreter, "woven.py", 60)
    path = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS)
    account = account_of(path)
    stacks = woven_stacks_of(path)
    places: dict[tuple[tuple[str, str], ...], set[str]] = {}
    seen = set()
    wrong = []
    for sampled in stacks:
        if has_gap(sampled.frames):
            continue  # counted below
        for name, between in [*calls(sampled.frames)][1:]:
            seen.add(kind_of(name))
            # Without symbols: the same calls lie between the same kinds of frames only.
            places.setdefault(tuple((frame.function, frame.file) for frame in between), set()).add(kind_of(name))
        if not interpreter.stripped:
            wrong += wrong_calls(sampled.frames)
    assert not wrong, wrong[:5]
    assert not [kinds for kinds in places.values() if len(kinds) > 1]
    assert seen == {"python", *CALLERS}
    assert account["native_truncated"] <= 0.02 * account["samples_taken"]
    woven = account["samples_taken"] - account["native_truncated"]
    assert woven > 100 * SECONDS
    assert account["seams_counted"] == 0
    assert share(stacks, lambda sampled: has_doubt(sampled.frames) and not has_gap(sampled.frames)) < 0.001
    assert share(stacks, is_proven) > 0.98
    print(f"{interpreter.name}: {account['samples_taken']:,} samples, {share(stacks, is_proven):.4%} all proven")
