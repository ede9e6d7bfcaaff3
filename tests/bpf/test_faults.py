"""Programs that make trouble, recorded by collector bpf and others: weft survives them, and what it tells is true."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from running import StartTarget
from weft_command import cpu_ns, running_weft, wait_until

from weft import Capture, Collector, Mode, Options, Profile, record_process
from weft.cpython.locate import wait_for_runtime
from weft.errors import WeftError
from weft.profile.tables import View
from weft.sample import FrameKind
from weft.target.process import Process

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")

BUSY = """
import sys
def inner(): sum(range(1000))
def outer():
    while True: inner()
sys.stdout.write("ready\\n")
sys.stdout.flush()
outer()
"""
COMPUTES_NS = 1_500_000_000  # of its own time, while its memory is overwritten
LEGAL = {("<module>",), ("<module>", "outer"), ("<module>", "outer", "inner")}
CROWD = """
import threading, time
threading.stack_size(65536)
never = threading.Event()
def waits(): never.wait()
for _ in range(10_000):
    threading.Thread(target=waits, daemon=True).start()
def works():
    while True: sum(range(1000))
print("ready", flush=True)
works()
"""


def python_stacks(path: Path) -> Counter[tuple[str, ...]]:
    """Ticks by the names of the Python functions, root first; stacks without any are left out."""
    with Capture(path) as capture:
        profile = Profile.from_capture(capture, View(idle=True, all_frames=True))
    stacks = Counter[tuple[str, ...]]()
    for total in profile.totals:
        frames = (profile.frames[frame] for frame in profile.stacks.path(total.stack))
        if names := tuple(frame.function for frame in frames if frame.kind is FrameKind.PYTHON):
            stacks[names] += total.ticks
    return stacks


def seen(path: Path) -> bool:
    """Whether a recording has Python stacks by now."""
    try:
        return python_stacks(path).total() > 0
    except WeftError:
        return False  # there is none yet


@contextmanager
def overwritten_again_and_again(pid: int, address: int) -> Iterator[list[int]]:
    """A word of a process's memory, by turns junk and what it was; how often so far."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown where the test fails
    words = random.Random(seed)
    times = [0]
    end = threading.Event()
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(address)
        real = memory.read(8)

        def overwrite() -> None:
            near = struct.unpack("<Q", real)[0]
            while not end.wait(0.001):
                times[0] += 1
                junk = words.choice([words.randrange(1 << 64), near + words.randrange(-4096, 4096), address, 0, 8])
                memory.seek(address)
                memory.write(real if times[0] % 4 == 0 else struct.pack("<Q", junk % (1 << 64)))

        writer = threading.Thread(target=overwrite)
        writer.start()
        try:
            yield times
        finally:
            end.set()
            writer.join()
            memory.seek(address)
            memory.write(real)


@pytest.mark.parametrize("collector", [Collector.BPF, Collector.PTRACE])
def test_the_list_of_interpreters_is_overwritten(
    interpreter: Interpreter, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN a program whose list of interpreters is junk most of the time THEN stacks that are told are true ones."""
    path = tmp_path / "x.weft"
    with subprocess.Popen([*interpreter.command, "-c", BUSY], stdout=subprocess.PIPE) as target:
        try:
            assert target.stdout is not None
            target.stdout.readline()
            roots = wait_for_runtime(Process(target.pid)).addresses
            options = ["--mode", "cpu", "--collector", collector, "-r", 500]
            with running_weft("record", "-p", target.pid, *options, "-o", path) as weft:
                wait_until(lambda: weft.poll() is not None or seen(path), "the recording has begun")
                begun_ns = cpu_ns(target.pid)
                with overwritten_again_and_again(target.pid, roots.interpreters_head) as times:
                    wait_until(lambda: times[0] > 100 and cpu_ns(target.pid) > begun_ns + COMPUTES_NS, "it computes")
                    used_s = (cpu_ns(target.pid) - begun_ns) / 1e9
                    weft.send_signal(signal.SIGINT)
                    _, errors = weft.communicate()
            assert weft.returncode == 0, errors.decode()
            assert times[0] > 100
            assert target.poll() is None, "it has survived"
        finally:
            target.kill()
    stacks = python_stacks(path)
    assert stacks[("<module>", "outer", "inner")] > 0
    assert set(stacks) <= LEGAL
    with Capture(path) as capture:
        assert capture.account()["samples_wanted"] > 500 * used_s * 0.5 > 100


@pytest.mark.serial
@pytest.mark.parametrize("collector", [Collector.BPF, Collector.PTRACE, Collector.PEEK])
def test_ten_thousand_threads(tmp_path: Path, collector: Collector) -> None:
    """GIVEN a program with 10,000 threads that wait, and one that works THEN that one is seen, and all are there.

    To look at so many threads takes time: what ptrace and peek are late for is told.
    """
    with subprocess.Popen([sys.executable, "-c", CROWD], stdout=subprocess.PIPE) as target:
        try:
            assert target.stdout is not None
            target.stdout.readline()
            record_process(target.pid, tmp_path / "x.weft", Options(200, 10, Mode.WALL, collector))
            assert target.poll() is None, "it has survived"
        finally:
            target.kill()
    stacks = python_stacks(tmp_path / "x.weft")
    works = sum(ticks for names, ticks in stacks.items() if "works" in names)
    with Capture(tmp_path / "x.weft") as capture:
        late = sum(loss.count for loss in capture.losses() if loss.reason == "late")
        assert works > 0
        assert works + late * (collector is not Collector.BPF) > 500
        assert len(list(capture.threads())) == 10_001


@pytest.mark.serial
def test_threads_and_libraries_that_come_and_go(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN hundreds of threads a second, and libraries that are unloaded while they run THEN no frame is impossible:
    functions of threads are under those that start threads."""
    target = start_target(all_interpreters()[-1], "churn.py", 6)
    path = tmp_path / "x.weft"
    record_process(target.pid, path, Options(1000, 4, Mode.WALL, Collector.BPF))
    told = target.next_line()
    assert told["threads"] > 100
    stacks = python_stacks(path)
    assert all(any(inner in names for names in stacks) for inner in ("stays", "loads"))
    for names in stacks:
        for inner in ("stays", "loads", "lives_briefly"):
            if inner in names:
                assert names[names.index(inner) - 1].endswith("run"), names
                assert "main" not in names, names
