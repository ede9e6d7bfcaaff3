"""Stacks at each instruction of a program: one after the other, they may differ by one frame at most."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from interpreters import Interpreter
from programs import build
from running import StartTarget
from told_process import tell_process

STEPS = int(os.environ.get("WEFT_TEST_STEPS", "50000"))
MOST_RUNS = 5


def test_each_instruction(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN Python that calls C that calls Python WHEN it is stepped by instructions THEN its proven stacks grow and
    shrink by a frame at their innermost end: no activation that has half begun or ended is taken for what it is not."""
    target = start_target(interpreter, "steps.py")
    command = [build("step_stacks"), str(target.pid), tell_process(target.pid, tmp_path), str(STEPS)]
    all_changes = 0
    for _ in range(MOST_RUNS):  # it may begin in a long stretch of C, where nothing changes
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        *wrong, figures = run.stdout.splitlines()
        assert not wrong
        steps, whole, changes = (int(words.split()[0]) for words in figures.split(", "))
        print(f"{interpreter.name}: {figures}")
        assert steps == STEPS
        assert whole > 0.9 * STEPS
        all_changes += changes
        if all_changes > STEPS / 5000:
            return
    pytest.fail(f"its stack changed {all_changes} times only")
