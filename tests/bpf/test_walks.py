"""The kernel's walk, compiled for the host, beside our own walkers: the same stacks, of the same memory."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from programs import build
from running import StartTarget, Target
from told_process import tell_process

from weft import _native

STOPS = 150


def test_same_stacks(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a program that is stopped at any instruction, deep in Python that calls C that calls Python THEN the
    kernel's walk over its memory tells the native frames, the Python frames and the seams that our own walkers find."""
    assert_same_stacks(start_target(interpreter, "woven.py", 100), tmp_path)


@pytest.mark.parametrize("python", [python for python in all_interpreters() if python.minor >= (3, 12)], ids=str)
def test_same_stacks_of_trampolines(python: Interpreter, start_traced: StartTarget, tmp_path: Path) -> None:
    """The same, where CPython makes code at run time for each function, of which no table tells: the kernel has it."""
    target = start_traced(python, "woven.py", 100, env={"PYTHONPERFSUPPORT": "1"})
    assert_same_stacks(target, tmp_path)


def assert_same_stacks(target: Target, folder: Path) -> None:
    """Of a running woven.py."""
    described = tell_process(target.pid, folder)
    pauses = random.Random(1)
    followed = native = python = 0
    with subprocess.Popen(
        [build("compare_walks"), str(target.pid), described], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as comparison:
        assert comparison.stdin
        assert comparison.stdout
        for number in range(STOPS):
            time.sleep(pauses.uniform(0, 0.003))
            thread = _native.StoppedThread(target.pid, 5.0)
            try:
                registers = [thread.registers[i] for i in range(_native.PC + 1)]
                print(thread.thread_pointer, *registers, number % 2, file=comparison.stdin, flush=True)
                verdict, *told = comparison.stdout.readline().rsplit(maxsplit=3)
            finally:
                thread.release()
            assert verdict == "same", (number, verdict, told)
            done, native_frames, python_frames = map(int, told)
            followed += done
            native += native_frames
            python += python_frames
    # The program was deep in both, and the kernel needed us for few of its stacks.
    print(f"{followed} of {STOPS} followed, {native} native and {python} Python frames")
    assert followed > 0.9 * STOPS
    assert native > 30 * STOPS
    assert python > 15 * STOPS
