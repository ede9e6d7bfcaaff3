"""Code objects that are freed: what comes to lie where one was is not taken for it, and it not for what comes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from interpreters import Interpreter
from recordings import account_of, losses_of, record, stacks_of
from running import TARGETS, StartTarget

from weft import Collector
from weft.sample import Frame

ENOUGH = 300  # samples in such functions
# The line that `template` begins at, which half of them are made of.
TEMPLATE = (TARGETS / "short_lived_code.py").read_text().splitlines().index("def template(turns):") + 1


def fault(caller: Frame, called: Frame) -> str:
    """What cannot be about a short-lived function and its caller; empty if all can."""
    kind, _, number = called.function.partition("_")
    if caller.function != kind:
        return f"{caller.function} does not call {called.function}"
    file = Path(called.file).name
    if file not in {"short_lived_code.py", f"{called.function}.py"}:
        return f"{called.function} is not in {file}"
    first = TEMPLATE if file == "short_lived_code.py" else int(number) + 1
    lines = range(first, first + 3)
    return "" if called.line in lines else f"{called.function} has no line {called.line}"


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.PEEK, Collector.BPF])
def test_short_lived_code(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN thousands of functions a second that live for as long as they are called THEN each has its own name, file
    and line, and the caller that it can have."""
    target = start_target(interpreter, "short_lived_code.py", 200)
    capture = record(target.pid, tmp_path, rate_hz=2000, seconds=1, samples=10 * ENOUGH, collector=collector)
    seen = 0
    faults = {}
    files = set()
    for sampled in stacks_of(capture):
        for caller, called in pairwise(sampled.frames):
            if called.function.startswith(("even_", "odd_")):
                seen += sampled.ticks
                files.add(Path(called.file).name)
                faults[fault(caller, called)] = (caller, called)
    faults.pop("", None)
    assert not faults
    assert seen >= ENOUGH
    assert len(files) > 20, "both kinds of functions are seen"
    account = account_of(capture)
    print(
        f"{interpreter.name}, {collector.value}: {seen} seen, {losses_of(capture)}, {account['stacks_retaken']} again"
    )
    if collector is Collector.BPF:  # what had gone before it was read
        assert "code-gone" not in losses_of(capture)
        assert account["stacks_retaken"] <= 0.01 * account["samples_taken"]
