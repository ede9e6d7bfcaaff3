"""bpf/switches.h, compiled for the host: the times of a thread, by a history that is known and not told in full."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

SLEEPS = 1  # TASK_INTERRUPTIBLE
STAYS = 200
MS = 1_000_000


@pytest.fixture(scope="module")
def kernel(on_host: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    """The library."""
    return on_host("switches.c")


@dataclass(frozen=True)
class Told:
    """How likely it is that the kernel tells of it."""

    leaving: float = 1
    waking: float = 1
    coming: float = 1


@dataclass
class Times:
    """In ns."""

    ran: int = 0
    ready: int = 0
    blocked: int = 0


def live(kernel: ctypes.CDLL, told: Told, rng: random.Random) -> tuple[Times, Times]:
    """The life of a thread, which runs when it is found: its times as they were, and as the kernel's part has them."""

    def happens(call: str, *arguments: int) -> None:
        getattr(kernel, call)(*(ctypes.c_uint64(argument) for argument in arguments))

    truth = Times()
    now = found = 1_000 * MS
    cpu_before = rng.randrange(10_000 * MS)
    happens("find", found, cpu_before)
    for stay in range(STAYS):
        ran = rng.randrange(1, 5 * MS)
        now += ran
        truth.ran += ran
        # The first and the last switch are told: before and behind them, nothing is known.
        certain = stay in (0, STAYS - 1)
        sleeps = rng.random() < 0.8
        if certain or rng.random() < told.leaving:
            happens("leaves", now, cpu_before + truth.ran, SLEEPS if sleeps else 0)
        if sleeps:
            blocked = rng.randrange(1, 50 * MS)
            now += blocked
            truth.blocked += blocked
            if rng.random() < told.waking:
                happens("is_woken", now)
        ready = rng.randrange(1, MS)
        now += ready
        truth.ready += ready
        if certain or rng.random() < told.coming:
            happens("comes_back", now, cpu_before + truth.ran)
    assert now - found == truth.ran + truth.ready + truth.blocked
    times = (ctypes.c_uint64 * 3)()
    kernel.get_times(times)
    return truth, Times(*times)


def test_all_is_told(kernel: ctypes.CDLL) -> None:
    """GIVEN a kernel that tells of each switch THEN the times are exact."""
    truth, times = live(kernel, Told(), random.Random(1))
    assert times == truth


@pytest.mark.parametrize("told", [Told(coming=0.5), Told(leaving=0.5), Told(coming=0)], ids=str)
def test_a_switch_is_not_told(kernel: ctypes.CDLL, told: Told) -> None:
    """GIVEN a kernel that keeps switches of one kind to itself THEN the times on the CPU and off it are exact still.

    Who was ready and who was blocked is not known of a stay whose beginning was not told.
    """
    truth, times = live(kernel, told, random.Random(2))
    assert times.ran == truth.ran
    assert times.ready + times.blocked == truth.ready + truth.blocked
    if told.leaving == 1:
        assert times == truth


def test_a_waking_is_not_told(kernel: ctypes.CDLL) -> None:
    """GIVEN a kernel that tells of no waking THEN a thread that was blocked is not told as ready."""
    truth, times = live(kernel, Told(waking=0), random.Random(3))
    assert times.ran == truth.ran
    assert truth.blocked <= times.blocked <= truth.blocked + truth.ready
    assert times.blocked + times.ready == truth.blocked + truth.ready


def test_a_tick_of_a_thread_that_is_away(kernel: ctypes.CDLL) -> None:
    """GIVEN a return that was not told WHEN a tick finds the thread on a CPU THEN it counts as back since about then.

    About: its CPU time is as the scheduler's last tick has found it.
    """
    kernel.find(ctypes.c_uint64(MS), ctypes.c_uint64(0))
    kernel.leaves(ctypes.c_uint64(2 * MS), ctypes.c_uint64(MS), ctypes.c_uint64(SLEEPS))
    kernel.is_woken(ctypes.c_uint64(100 * MS))
    kernel.ticks(ctypes.c_uint64(110 * MS), ctypes.c_uint64(8 * MS))
    kernel.leaves(ctypes.c_uint64(120 * MS), ctypes.c_uint64(20 * MS), ctypes.c_uint64(SLEEPS))
    times = (ctypes.c_uint64 * 3)()
    kernel.get_times(times)
    assert list(times) == [18 * MS, 3 * MS, 98 * MS]


@pytest.mark.parametrize("event", ["leaves", "comes_back", "ticks"])
def test_found_while_the_kernel_is_at_it(kernel: ctypes.CDLL, event: str) -> None:
    """GIVEN an event whose time was taken just before its thread was found, elsewhere, THEN no time is negative."""
    kernel.sampled_cpu_ns.restype = ctypes.c_uint64
    times = (ctypes.c_uint64 * 3)()
    kernel.find(ctypes.c_uint64(100 * MS), ctypes.c_uint64(0))
    arguments = [100 * MS - 5_000, MS, *([SLEEPS] if event == "leaves" else [])]
    getattr(kernel, event)(*(ctypes.c_uint64(argument) for argument in arguments))
    kernel.get_times(times)
    assert list(times) == [0, 0, 0]
    if event == "ticks":
        assert kernel.sampled_cpu_ns() == 0
    if event != "leaves":
        kernel.leaves(ctypes.c_uint64(102 * MS), ctypes.c_uint64(3 * MS), ctypes.c_uint64(SLEEPS))
    kernel.comes_back(ctypes.c_uint64(105 * MS), ctypes.c_uint64(3 * MS))
    kernel.get_times(times)
    assert sum(times) == 5 * MS


def test_a_return_that_the_ring_has_no_room_for(kernel: ctypes.CDLL) -> None:
    """GIVEN a full ring as a thread comes back THEN its stay is lost, and counted: it is no part of the next stay."""
    kernel.lost_ns.restype = kernel.times_full.restype = ctypes.c_uint64
    kernel.find(ctypes.c_uint64(MS), ctypes.c_uint64(0))
    for left, is_full in ((2, 1), (200, 0)):
        kernel.leaves(ctypes.c_uint64(left * MS), ctypes.c_uint64(MS), ctypes.c_uint64(SLEEPS))
        kernel.is_woken(ctypes.c_uint64((left + 80) * MS))
        kernel.fills(is_full)
        kernel.comes_back(ctypes.c_uint64((left + 90) * MS), ctypes.c_uint64(MS))
        kernel.fills(0)
    times = (ctypes.c_uint64 * 3)()
    kernel.get_times(times)
    assert list(times) == [MS + 108 * MS, 10 * MS, 80 * MS]
    assert kernel.lost_ns() == 90 * MS
    assert kernel.times_full() == 1
