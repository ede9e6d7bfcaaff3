"""Native stacks of stopped programs, frame by frame as gdb sees them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from native_stacks import gdb_stack, own_stack, wait_until_it_reads
from running import StartTarget


@pytest.mark.parametrize("depth", [0, 50])
def test_nested(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, depth: int) -> None:
    """GIVEN C that calls Python that calls C, through sort, re, libffi, qsort and slots THEN each frame is gdb's."""
    target = start_target(interpreter, "nested.py", depth)
    wait_until_it_reads(target)
    frames, loss = own_stack(target.pid)
    assert loss is None
    assert [frame[0] for frame in frames] == gdb_stack(target.pid, tmp_path, interpreter.chroot)
    assert len(frames) > (300 if depth else 10)
    places = [(stack_pointer, cfa) for _, stack_pointer, cfa, _ in frames]
    assert all(low < high for low, high in places[:-1]), "frames lie above each other"
    assert all(before[1] == after[0] for before, after in pairwise(places))


@pytest.mark.parametrize("python", [python for python in all_interpreters() if python.version < (3, 11)], ids=str)
def test_thousands_of_frames(python: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN Python that calls itself 4,200 times, each by C functions of the interpreter, THEN each frame is gdb's."""
    target = start_target(python, "recursion.py", 4200)
    wait_until_it_reads(target)
    frames, loss = own_stack(target.pid)
    assert loss is None
    assert len(frames) > 4200
    assert [frame[0] for frame in frames] == gdb_stack(target.pid, tmp_path, python.chroot)
