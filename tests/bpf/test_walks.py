"""The kernel's walk, compiled for the host, beside our own walkers: the same stacks, of the same memory."""

from __future__ import annotations

import os
import random
import signal
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


@pytest.mark.parametrize("before", [1, 20])
@pytest.mark.parametrize("length", [1, 2, 60])
def test_circles_end(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, before: int, length: int
) -> None:
    """GIVEN a chain of frames that runs in a circle THEN the kernel goes round it a few times, and not until it has
    told all the frames that it may: each costs time in which the program does not run."""
    target = start_target(interpreter, "circle.py", before, length)
    described = tell_process(target.pid, tmp_path)
    os.kill(target.pid, signal.SIGUSR1)
    assert target.next_line()["linked"]
    with comparing(target, described) as comparison:
        _, _, python, told = compare(comparison, target)
    assert before + length <= python
    assert python <= told <= 3 * (before + length) + 2


def test_deep_in_both(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN more than a thousand native frames, and a third as many of Python, THEN the kernel tells them all."""
    target = start_target(interpreter, "nested.py", 160 if interpreter.version >= (3, 11) else 105)
    with comparing(target, tell_process(target.pid, tmp_path)) as comparison:
        followed, native, python, _ = compare(comparison, target, in_kernel=True)
    assert followed
    assert native > 1024
    assert python > 300


def test_deep_in_python(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN more than a thousand Python frames THEN the kernel tells them all (3.12 on: and entry frames), also where
    there are more native ones than it tells."""
    target = start_target(interpreter, "recursion.py", 1100)
    with comparing(target, tell_process(target.pid, tmp_path)) as comparison:
        verdict, (_, _, python, told) = ask(comparison, target, in_kernel=True)
    assert verdict in ("same", "not the same: number of native frames;"), "it compares Python's first"
    assert python == 1102
    assert told >= python


def comparing(target: Target, described: Path) -> subprocess.Popen[str]:
    """The program that compares walks over one process."""
    command = [build("compare_walks"), str(target.pid), described]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def compare(comparison: subprocess.Popen[str], target: Target, *, in_kernel: bool = False) -> tuple[int, ...]:
    """Stop the first thread, and compare the walks over its stacks, which have to be the same.

    Gives whether the kernel's walk needs no help, native frames, Python frames, Python frames that the kernel tells.
    """
    verdict, told = ask(comparison, target, in_kernel=in_kernel)
    assert verdict == "same", (verdict, told)
    return told


def ask(comparison: subprocess.Popen[str], target: Target, *, in_kernel: bool) -> tuple[str, tuple[int, ...]]:
    """Do the same, whatever comes of it."""
    assert comparison.stdin
    assert comparison.stdout
    thread = _native.StoppedThread(target.pid, 5.0)
    try:
        registers = [thread.registers[i] for i in range(_native.PC + 1)]
        print(thread.thread_pointer, *registers, int(in_kernel), file=comparison.stdin, flush=True)
        verdict, *told = comparison.stdout.readline().rsplit(maxsplit=4)
    finally:
        thread.release()
    return verdict, tuple(map(int, told))


def assert_same_stacks(target: Target, folder: Path) -> None:
    """Of a running woven.py."""
    described = tell_process(target.pid, folder)
    pauses = random.Random(1)
    followed = native = python = 0
    with comparing(target, described) as comparison:
        for number in range(STOPS):
            time.sleep(pauses.uniform(0, 0.003))
            done, native_frames, python_frames, _ = compare(comparison, target, in_kernel=bool(number % 2))
            followed += done
            native += native_frames
            python += python_frames
    # The program was deep in both, and the kernel needed us for few of its stacks.
    print(f"{followed} of {STOPS} followed, {native} native and {python} Python frames")
    assert followed > 0.9 * STOPS
    assert native > 30 * STOPS
    assert python > 15 * STOPS
