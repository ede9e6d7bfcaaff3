"""What Python calls its threads."""

from __future__ import annotations

import pytest
from interpreters import Interpreter
from running import StartTarget

from weft.cpython import containers
from weft.cpython.locate import find_runtime
from weft.cpython.threads import thread_names
from weft.target.process import Process


def test_names_wherever_the_modules_were_last_found(
    interpreter: Interpreter, start_target: StartTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN the place where another interpreter keeps its modules, which may be wrong here THEN names are found."""
    process = Process(start_target(interpreter, "blocked.py").pid)
    runtime = find_runtime(process)
    known: dict[object, int] = {}
    monkeypatch.setattr(containers, "_modules_at", known)
    told = thread_names(process.memory, runtime)
    assert sorted(name.partition(" ")[0] for name in told.values()) == [
        "MainThread",
        "Thread-1",
        "Thread-2",
        "Thread-3",
    ]
    assert list(known) == [runtime.layout]
    right = known[runtime.layout]
    for place in (right, right + 4, 0, runtime.layout.interp_threads_head, 1 << 40):
        known[runtime.layout] = place
        assert thread_names(process.memory, runtime) == told
        assert known[runtime.layout] == right
