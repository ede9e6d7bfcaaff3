"""bpf/kernel_stack.h, compiled for the host: stacks of a made-up kernel, beside those that it remembers."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

TEXT = 0xFFFFFFFF81000000
WORDS = 2048  # of a thread's stack
OWN = [0xFFFFFFFFC0001234, TEXT + 0x42]  # below the tracepoint's arguments: the BPF program, and who calls it
ARGUMENTS = 4  # words
SWITCHES = 5_000


@dataclass
class Call:
    """A call in the kernel: it returns to an address in a function, whose frame has a size there."""

    address: int
    frame: int  # words between this return address and the function's own
    calls: list[Call] = field(default_factory=list)  # that are made from there


SCHEDULER = Call(TEXT + 0x1000042, 7)  # from where the tracepoint is called: one place, whatever waits


def random_calls(rng: random.Random, depth: int, made: dict[int, list[Call]]) -> list[Call]:
    """Calls that a function may wait for, down to the scheduler's. Functions are called from several places."""
    if depth == 0:
        return [SCHEDULER]
    calls = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        known = made.setdefault(depth, [])
        call = Call(TEXT + rng.randrange(1 << 24), rng.randrange(24))
        call.calls = rng.choice(known).calls if known and rng.random() < 0.5 else random_calls(rng, depth - 1, made)
        known.append(call)
        calls.append(call)
    return calls


class Thread:
    """A thread, and its stack: what has been written there stays until it is overwritten."""

    def __init__(self, rng: random.Random, calls: dict[int, Call], gap: int, left: float) -> None:
        self._rng = rng
        self._gap = gap  # words at most
        self._left = left  # part of a frame that is not written
        self._calls = calls  # by system call
        self.words = (ctypes.c_uint64 * WORDS)()

    def leave(self) -> tuple[int, int, list[int]]:
        """Wait in some system call: its number, where the tracepoint's arguments are, the return addresses."""
        rng = self._rng
        number = rng.choice(list(self._calls))
        call = self._calls[number]
        at = WORDS - 1
        self.words[at] = call.address
        at -= 2 * rng.randrange(self._gap // 2 + 1)
        path = [call.address]
        while call.calls:
            call = rng.choice(call.calls)
            at = self._write_frame(at, call.frame) - 1
            self.words[at] = call.address
            path.append(call.address)
        return number, at - ARGUMENTS, OWN + path[::-1]

    def _write_frame(self, at: int, size: int) -> int:
        """What a function keeps on its stack: some of it is not written, some are addresses of functions."""
        rng = self._rng
        for word in range(at - size, at):
            if rng.random() > self._left:
                is_function = rng.random() < 0.1
                self.words[word] = TEXT + rng.randrange(1 << 24) if is_function else rng.getrandbits(64)
        return at - size


@pytest.fixture(scope="module")
def kernel(on_host: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    """The library."""
    return on_host("kernel_stack.c")


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("gap", [0, 2, 128])
@pytest.mark.parametrize(("left", "unwound"), [(0.5, 0.5), (0.9, 1)])
def test_stacks_are_remembered(kernel: ctypes.CDLL, left: float, unwound: float, gap: int, seed: int) -> None:
    """GIVEN threads that wait in many ways, on stacks where much is left of earlier calls, and where the kernel leaves
    a gap by chance (randomize_kstack.h) or none, THEN each stack is told as the kernel's unwinder has it, and of few,
    or where nearly all is left, of some, it is not asked."""
    rng = random.Random(seed)
    made: dict[int, list[Call]] = {}
    calls = {number: Call(TEXT + number, 0, random_calls(rng, rng.randrange(2, 6), made)) for number in range(6)}
    threads = [Thread(rng, calls, gap, left) for _ in range(4)]
    before = kernel.get_times_unwound()
    for _ in range(SWITCHES):
        thread = rng.choice(threads)
        number, begin, addresses = thread.leave()
        assert told(kernel, number, thread.words[begin:], addresses) == addresses
    assert kernel.get_times_unwound() - before < unwound * SWITCHES


def test_a_shorter_stack(kernel: ctypes.CDLL) -> None:
    """GIVEN a stack that ends before one that was met would have its next return address THEN what was read of that one
    is not taken for its own."""
    words = [0] * 60
    words[10], words[50], words[59] = SCHEDULER.address, TEXT + 1, TEXT + 2
    longer = [*OWN, words[10], words[50], words[59]]
    for _ in range(10):
        assert told(kernel, 99, words, longer) == longer
    shorter = [*OWN, words[10], words[59]]
    assert told(kernel, 99, [*words[:39], words[59]], shorter) == shorter


def test_a_return_address_that_is_left_over(kernel: ctypes.CDLL) -> None:
    """GIVEN a stack on which a return address lies twice, once left over from an earlier call, WHEN the same is left
    over on another stack THEN it is not taken for a return address of that one."""
    words = [0] * 60
    words[10], words[20], words[50], words[59] = SCHEDULER.address, TEXT + 1, TEXT + 1, TEXT + 2
    first = [*OWN, words[10], words[50], words[59]]
    assert told(kernel, 88, words, first) == first
    words[50] = TEXT + 3
    other = [*OWN, words[10], words[50], words[59]]
    for _ in range(10):
        assert told(kernel, 88, words, other) == other


def test_it_is_left_over_each_time(kernel: ctypes.CDLL) -> None:
    """GIVEN a return address that lies twice on the same stack again and again, so that unwinding it confirms what was
    taken for its place, THEN it is not taken for one of another stack, where only what is left over is the same."""
    words = [0] * 60
    words[10], words[20], words[30] = SCHEDULER.address, TEXT + 1, TEXT + 1
    words[50], words[59] = TEXT + 2, TEXT + 3
    for called_from in (TEXT + 1, TEXT + 4):
        words[30] = called_from
        addresses = [*OWN, words[10], words[30], words[50], words[59]]
        for _ in range(10):
            assert told(kernel, 77, words, addresses) == addresses


def told(kernel: ctypes.CDLL, number: int, words: list[int], unwound: list[int]) -> list[int]:
    """The return addresses that are told of a thread in a system call, where the unwinder would tell some."""
    stack = (ctypes.c_uint64 * len(words))(*words)
    addresses = (ctypes.c_uint64 * len(unwound))(*unwound)
    found = (ctypes.c_uint64 * 128)()
    frames = kernel.leave_from(stack, len(words), addresses, len(unwound), ctypes.c_int64(number), found)
    return found[:frames]
