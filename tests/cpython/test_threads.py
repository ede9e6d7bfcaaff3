"""What Python calls its threads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from interpreters import Interpreter
from running import StartTarget

from weft.cpython import containers
from weft.cpython.locate import find_runtime
from weft.cpython.threads import Marks, thread_names
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


def test_threading_that_is_imported_late(interpreter: Interpreter, start_target: StartTarget) -> None:
    """GIVEN a program that imports another module, then threading THEN its thread has its name from then on, though
    meanwhile its modules are looked through again only where one has come."""
    without_site = replace(interpreter, command=[*interpreter.command, "-S"])  # which may import threading
    target = start_target(without_site, "threading_late.py")
    process = Process(target.ready["pid"])
    runtime = find_runtime(process)
    memory = containers.BoundedMemory(process.memory, 1 << 40)
    without_threading: Marks = {}

    def look() -> tuple[list[str], int]:
        left = memory.reads_left
        return list(thread_names(memory, runtime, without_threading).values()), left - memory.reads_left

    def imports(module: str) -> bool:
        assert target.process.stdin
        target.process.stdin.write(module.encode() + b"\n")
        target.process.stdin.flush()
        return bool(target.next_line()["has_threading"])

    assert not target.ready["has_threading"]
    names, reads = look()
    assert not names
    names, again = look()
    assert not names
    assert again < reads / 2
    assert not imports("colorsys")
    names, anew = look()
    assert not names
    assert anew > 2 * again
    assert imports("threading")
    assert look()[0] == ["MainThread"]
