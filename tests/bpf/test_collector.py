"""Collector bpf: what it leaves in the kernel, and what it refuses. Its stacks are tried in tests/truth."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from interpreters import all_interpreters
from privileges import ordinary
from running import StartTarget
from weft_command import LIMIT_S, assert_one_line, record_until, run_weft, running_weft, wait_until

from weft import Capture, Collector, Mode, Options, record_command, record_process
from weft.collect.bpf import collector
from weft.collect.choose import check_bpf
from weft.errors import CollectorError
from weft.session import Progress

PROGRAM_BY_ID, MAP_BY_ID = 13, 14  # bpf(2): BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")


def in_kernel(pid: int) -> set[tuple[int, int]]:
    """The BPF programs and maps that a process holds: (command that finds it, its number)."""
    found = set()
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            told = dict(re.findall(r"^(prog_id|map_id):\s*(\d+)$", file.read_text(), re.MULTILINE))
        except OSError:
            continue  # it has been closed
        found |= {(PROGRAM_BY_ID if name == "prog_id" else MAP_BY_ID, int(number)) for name, number in told.items()}
    return found


def is_there(command: int, number: int) -> bool:
    """Whether the kernel still has a program or a map."""
    attributes = struct.pack("<II", number, 0).ljust(64, b"\0")
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(321, command, attributes, len(attributes))
    if descriptor < 0:
        assert ctypes.get_errno() == errno.ENOENT
        return False
    os.close(descriptor)
    return True


def test_nothing_is_left_in_the_kernel(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """WHEN weft is killed THEN its program and its maps are gone with it, and what it had recorded is there."""
    path = tmp_path / "x.weft"
    with running_weft("record", "-p", busy.pid, "-r", 200, "--collector", "bpf", "-o", path) as weft:
        wait_until(lambda: len({command for command, _ in in_kernel(weft.pid)}) == 2, "its program is loaded")
        wait_until(lambda: path.exists() and path.stat().st_size > 0, "it has begun")
        held = in_kernel(weft.pid)
        assert all(is_there(*each) for each in held)
        weft.kill()
        weft.wait()
    # Maps are freed after a grace period of the kernel's (RCU).
    wait_until(lambda: not any(is_there(*each) for each in held), "the kernel has let go of them")


def test_account(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """THEN the account says who has read the stacks, and that nobody was stopped for them."""
    path = tmp_path / "x.weft"
    run = record_until(200, busy.pid, path, "-r", 500, "--collector", "bpf")
    assert run.returncode == 0, run.stderr
    with Capture(path) as capture:
        account = capture.account()
    assert account["stacks_in_kernel"] == account["samples_taken"] > 100
    assert account["stops"] == account["stacks_moving"] == account["samples_dropped"] == 0
    assert account["seams_proven"] > 100
    assert account["seams_counted"] == account["seams_open"] == 0
    told = run_weft("report", path).stdout
    assert f"{account['stacks_in_kernel']:,} in the kernel" in told
    assert "bpf, paced by clocks of the CPUs\n" in told


def test_dropped(start_target: StartTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a program that is kept to one CPU, and a ring with room for a few samples THEN those that found it full are
    told, and that CPU with them."""
    cpu = max(os.sched_getaffinity(0))
    busy = start_target(all_interpreters()[-1], "crowd.py", 1)
    os.sched_setaffinity(busy.pid, {cpu})
    monkeypatch.setattr(collector, "_MOST_RING", 2 * mmap.PAGESIZE)
    record_process(busy.pid, tmp_path / "x.weft", Options(2000, 1.0, collector=Collector.BPF))
    with Capture(tmp_path / "x.weft") as capture:
        account = capture.account()
    by_cpu = {key: count for key, count in account.items() if key.startswith("samples_dropped_cpu")}
    assert by_cpu == {f"samples_dropped_cpu{cpu}": account["samples_dropped"]}
    assert account["samples_dropped"] > 0
    assert account["samples_taken"] > 0


def test_a_ring_that_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN stacks of 1,800 frames, of which a tenth of a second has twice the ring's size, THEN they are taken all the
    same."""
    program = """
import time
def down(left):
    if left: return down(left - 1)
    end = time.thread_time() + 2
    while time.thread_time() < end: sum(range(100))
__import__("sys").setrecursionlimit(3000)
down(1800)
"""
    path = tmp_path / "x.weft"
    monkeypatch.setattr(collector, "_MOST_RING", 8 << 20)
    options = Options(1000, native=False, collector=Collector.BPF)
    record_command([sys.executable, "-c", program], path, options)
    with Capture(path) as capture:
        account = capture.account()
    assert account["stacks_whole"] > 1000
    assert account["samples_dropped"] < account["samples_taken"] / 10, account


@pytest.mark.serial
def test_a_new_thread_and_a_child(tmp_path: Path) -> None:
    """GIVEN a program whose thread and whose child begin while it is recorded THEN both are in the capture."""
    program = """
import os, threading, time
def spin(name):
    end = time.thread_time() + 0.5  # 250 samples, however busy the machine is
    while time.thread_time() < end: sum(range(100))
def in_thread(): spin("thread")
def in_child(): spin("child")
thread = threading.Thread(target=in_thread)
time.sleep(0.5)
thread.start()
if os.fork() == 0:
    in_child()
    os._exit(0)
thread.join()
os.wait()
"""
    path = tmp_path / "x.weft"
    command = [sys.executable, "-c", program]
    run = run_weft("record", "-s", "-r", 500, "--collector", "bpf", "-o", path, "--", *command)
    assert run.returncode == 0, run.stderr
    told = run_weft("report", path, "-f", "collapsed").stdout
    counts = {
        name: sum(int(line.rpartition(" ")[2]) for line in told.splitlines() if f"{name} (<string>" in line)
        for name in ("in_thread", "in_child")
    }
    assert min(counts.values()) > 100, (counts, run_weft("report", path, "--idle").stdout, run.stderr)


def test_children_that_live_for_moments(tmp_path: Path) -> None:
    """GIVEN children that compute for 4 ms each, one after the other, THEN nearly all of that is recorded.

    Each has ended before user mode looks at what the kernel has told: 100 times a second.
    """
    program = """
import os, sys, time
def in_child():
    while time.process_time() < 0.004: sum(range(100))
sys.stdin.read()
for _ in range(300):
    if os.fork() == 0:
        in_child()
        os._exit(0)
    os.wait()
"""
    path = tmp_path / "x.weft"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as target:
        assert target.stdin is not None
        start = target.stdin

        def begin(_: Progress) -> None:
            if not start.closed:
                start.close()

        record_process(target.pid, path, Options(1000, LIMIT_S, Mode.CPU, Collector.BPF, subprocesses=True), begin)
    told = run_weft("report", path, "-f", "collapsed").stdout
    samples = sum(int(line.rpartition(" ")[2]) for line in told.splitlines() if "in_child (<string>" in line)
    assert 0.75 * 1200 < samples < 1.25 * 1200, told


def test_refused_to_ordinary_users(tmp_path: Path) -> None:
    """THEN one line says what it needs, and no file is left."""
    command = [sys.executable, "-c", "pass"]
    run = run_weft("record", "--collector", "bpf", "-o", tmp_path / "x.weft", "--", *command, prefix=ordinary())
    assert "collector bpf needs CAP_BPF and CAP_PERFMON, or root" in assert_one_line(run)
    assert not list(tmp_path.iterdir())


def test_refused_for_the_gil(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    run = run_weft("record", "-p", busy.pid, "-d", 1, "--mode", "gil", "--collector", "bpf", "-o", tmp_path / "x.weft")
    assert "use --collector ptrace" in assert_one_line(run)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("release", ["5.17.15-generic", "4.19.0"])
def test_refused_on_an_old_kernel(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    with pytest.raises(CollectorError, match=r"needs Linux 5\.18, and this is"):
        check_bpf()


@pytest.mark.parametrize("release", ["5.18.0", "6.1.0-18-amd64", "10.0"])
def test_a_newer_kernel(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    check_bpf()
