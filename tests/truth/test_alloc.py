"""Mode alloc: programs that know what they ask libc for. Nothing of the expectation comes from weft.

An allocation of n bytes is sampled with a probability of p = 1 - exp(-n / mean) and stands for 1 / p then, so of N such
ones the estimate of their number has a variance of N (1 - p) / p, and that of their bytes n * n times as much.
Where next to none is missed (of 5 MB, one in 14,000), how many are is a Poisson variable, far from a normal one: of 200
such ones one is missed in 1.4 % of all runs, which is 8 standard deviations.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from interpreters import CHROOT, Interpreter, chroots
from recordings import Sampled, account_of, losses_of, stacks_of, woven_stacks_of
from running import TARGETS, StartTarget, Target, target_env
from weft_command import LIMIT_S
from zig import GLIBC, MUSL, compile_with_zig

from weft import Mode, Options, record_process
from weft.session import Progress

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")

MEAN = 512 << 10  # bytes
SIGMAS = 5
ALARM = 5.7e-7  # as rarely as a normal variable is farther off than that
FEW = 25  # that are missed, on average; of more it is normal
# Of allocates.c: what each function asks for, in one round, by sizes.
SIZES = {
    "get_many": [1000],
    "get_clean": [6400],
    "get_more": [3000, 70000],
    "get_aligned": [20000, 4096, 8192],
    "get_large": [5_000_000],
}


def compile_target(output: Path, *flags: str, target: str = GLIBC) -> Path:
    return compile_with_zig(output, "-O1", "-g", *flags, TARGETS / "allocates.c", target=target)


def record_from_now_on(target: Target, path: Path, *, ends: bool) -> None:
    """Record a target from when it is told to begin, to its end; `ends`: that is when it has no input any more."""
    begun = threading.Event()

    def begin(_: Progress) -> None:
        if not begun.is_set():
            begun.set()
            assert target.process.stdin is not None
            target.process.stdin.write(b"\n")
            target.process.stdin.flush()
            if ends:
                target.process.stdin.close()

    record_process(target.pid, path, Options(duration_s=LIMIT_S, mode=Mode.ALLOC, subprocesses=True), begin)
    assert begun.is_set()


def deviations(sizes: list[int], rounds: int) -> tuple[float, float]:
    """The standard deviations of the estimated bytes, and of the estimated calls."""
    chances = [1 - math.exp(-size / MEAN) for size in sizes]
    odds = [(1 - chance) / chance for chance in chances]
    bytes_ = sum(size * size * each for size, each in zip(sizes, odds, strict=True))
    return math.sqrt(rounds * bytes_), math.sqrt(rounds * sum(odds))


def missed_at_most(sizes: list[int], rounds: int) -> tuple[int, int]:
    """How many bytes and calls may be missed by chance, of sizes of which few are: seen too rarely to be normal."""
    bytes_ = calls = 0
    for size in sizes:
        mean = rounds * math.exp(-size / MEAN)
        if mean < FEW:
            most, chance = 0, math.exp(-mean)
            more = -math.expm1(-mean)  # the chance that it is more than `most`
            while more > ALARM:
                most += 1
                chance *= mean / most
                more -= chance
            bytes_ += most * size
            calls += most
    return bytes_, calls


def asked_in(stacks: list[Sampled], function: str) -> tuple[int, int]:
    """Bytes and calls of the stacks that a function is in."""
    among = [sampled for sampled in stacks if any(frame.function == function for frame in sampled.frames)]
    return sum(sampled.weight_ns for sampled in among), sum(sampled.ticks for sampled in among)


def test_bytes_calls_and_stacks(
    interpreter: Interpreter, start_target: StartTarget, target_folder: Callable[[Interpreter], Path], tmp_path: Path
) -> None:
    """GIVEN two threads that ask for known amounts in C functions, each of which one Python function calls THEN each
    function's bytes and calls are right, as far as chance goes, and each C function is in its Python function's stack.
    """
    folder = target_folder(interpreter) if interpreter.chroot else tmp_path
    library = compile_target(folder / "allocates.so", "-shared", "-fPIC")
    target = start_target(interpreter, "allocates.py", interpreter.inside(library))
    path = tmp_path / "alloc.weft"
    record_from_now_on(target, path, ends=False)
    told = target.next_line()
    account = account_of(path)
    known = sum(each["bytes"] for each in told.values())
    assert known <= account["allocation_bytes"] <= 1.02 * known  # the interpreter asks for some, too
    assert account["allocation_calls"] >= sum(each["calls"] for each in told.values())
    assert account["samples_dropped"] == 0
    assert losses_of(path).keys() <= {"code-gone"}
    stacks = woven_stacks_of(path)
    for function, sizes in SIZES.items():
        asks = function.replace("get_", "asks_")
        rounds = told[asks]["calls"] // len(sizes)
        assert told[asks]["bytes"] == rounds * sum(sizes)
        of_bytes, of_calls = deviations(sizes, rounds)
        few_bytes, few_calls = missed_at_most(sizes, rounds)
        bytes_, calls = asked_in(stacks, function)
        print(f"{interpreter.name} {function}: {bytes_ / told[asks]['bytes']:.4f} of the bytes, sigma "
              f"{of_bytes / told[asks]['bytes']:.4f}; {calls / told[asks]['calls']:.4f} of the calls")  # fmt: skip
        # Of each of two threads, less than 1,000 bytes and one call are not told.
        assert abs(bytes_ - told[asks]["bytes"]) <= max(SIGMAS * of_bytes, few_bytes) + 2000
        assert abs(calls - told[asks]["calls"]) <= max(SIGMAS * of_calls, few_calls) + 2
    for sampled in stacks:
        names = [frame.function for frame in sampled.frames]
        for name in set(names) & SIZES.keys():
            assert name.replace("get_", "asks_") in names[: names.index(name)], names
    wanted = {("works", function.replace("get_", "asks_"), "call") for function in SIZES}
    seen = {
        tuple(frame.function for frame in python.frames)[-3:]
        for woven, python in zip(stacks, stacks_of(path), strict=True)
        if any(frame.function in SIZES for frame in woven.frames)
    }
    assert seen == wanted


def trees() -> Iterator[tuple[str, Path | None]]:
    yield "host", None
    for tree in chroots():
        yield tree.name, tree


@pytest.mark.parametrize("tree", [pytest.param(tree, id=name) for name, tree in trees()])
@pytest.mark.parametrize("linked", ["shared", "static"])
def test_every_call_counts_once(tree: Path | None, linked: str, tmp_path: Path) -> None:
    """GIVEN a program that asks in every way, some of which ask malloc in turn, and for nothing else THEN calls and
    bytes are those that it made, to the last one: with the libc of each system, and with musl's, in the program."""
    folder = tree / "tmp" if tree else tmp_path
    program = folder / f"weft-allocates-{os.getpid()}"
    if linked == "static":
        compile_target(program, "-DPROGRAM", "-static", target=MUSL)
    else:
        compile_target(program, "-DPROGRAM")
    command = [CHROOT, str(tree), "/tmp/" + program.name] if tree else [str(program)]
    target = Target(command, target_env())
    try:
        path = tmp_path / "alloc.weft"
        record_from_now_on(target, path, ends=True)
        account = account_of(path)
    finally:
        target.end()
        program.unlink()
    assert account["allocation_calls"] == 3000 + 2000 + 2 * 500 + 3 * 400 + 20
    assert account["allocation_bytes"] == 3000 * 1000 + 2000 * 6400 + 500 * 73000 + 400 * 32288 + 20 * 5_000_000
    assert account["allocations_refused"] == 2
    assert account["samples_dropped"] == 0
