"""Frames of the kernel: of targets that are in it by construction, compared with the kernel's own accounts."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from privileges import ordinary
from recordings import Sampled, account_of, record, woven_stacks_of
from running import StartTarget
from weft_command import run_weft

from weft import Collector, Mode
from weft.profile.tables import ACTIVE
from weft.sample import Frame, FrameKind

RATE_HZ = 1000
SECONDS = float(os.environ.get("WEFT_KERNEL_SECONDS", "3"))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is shown the frames of the kernel")
by_both = pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])

# What the kernel calls first for each kind, after its entry. Names of x86-64, Linux 4.17 to 6.18. (On its way
# out of munmap it frees the memory.)
ENTRIES = {
    "reads": r"ksys_read|__x64_sys_read",
    "stats": r"__(x64|do)_sys_\w*stat\w*",
    "faults": r"exc_page_fault|__x64_sys_(mmap|munmap)|ksys_mmap_pgoff|vm_mmap_pgoff|exit_to_user_mode\w*",
}
# And what it does there most of the time.
INNER = {"reads": "get_random_bytes_user", "stats": "filename_lookup", "faults": "handle_mm_fault"}
SCHEDULER = r"__schedule|schedule\w*|(__)?bpf_trace_\w+|__traceiter_\w+"
MACHINERY = r"entry_SYSCALL_64\w*|do_syscall_64|x64_sys_call|asm_exc_page_fault"


def split(sampled: Sampled) -> tuple[tuple[Frame, ...], list[str]]:
    """The frames of user mode, and the functions of the kernel, root first: nothing else may come after these."""
    kinds = [frame.kind is FrameKind.KERNEL for frame in sampled.frames]
    outer = kinds.index(True) if True in kinds else len(kinds)
    assert all(kinds[outer:])
    return sampled.frames[:outer], [frame.function for frame in sampled.frames[outer:]]


def system_share(pid: int, before: tuple[int, int]) -> float:
    user, system = (now - then for now, then in zip(cpu_times(pid), before, strict=True))
    return system / (user + system)


def cpu_times(pid: int) -> tuple[int, int]:
    """utime and stime (proc(5), /proc/PID/stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


@needs_root
@pytest.mark.serial
@by_both
@pytest.mark.parametrize("kind", ["reads", "stats", "faults", "computes"])
def test_running_threads(start_target: StartTarget, tmp_path: Path, kind: str, collector: Collector) -> None:
    """GIVEN a target that does one thing WHEN recorded THEN the samples in the kernel are in that system call, under
    the Python function that makes it, and their share is the one that the kernel tells."""
    target = start_target(all_interpreters()[0], "kernel.py", kind)  # the kernel is the same for all of them
    before = cpu_times(target.pid)
    capture = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, mode=Mode.CPU, collector=collector)
    true = system_share(target.pid, before)
    weights = {True: 0, False: 0}
    samples = right = inner = 0
    for sampled in woven_stacks_of(capture):
        user, functions = split(sampled)
        weights[bool(functions)] += sampled.weight_ns
        python = [frame.function for frame in user if frame.kind is FrameKind.PYTHON]
        if functions and kind in python:
            samples += sampled.ticks
            entry = next((name for name in functions if not re.fullmatch(MACHINERY, name)), "")
            right += sampled.ticks if re.match(ENTRIES.get(kind, "$"), entry) else 0
            inner += sampled.ticks if INNER.get(kind) in functions else 0
    cpu_s = sum(weights.values()) / 1e9
    shown = weights[True] / 1e9 / cpu_s
    # Both are samples: ours, and those of the kernel's clock, 100 times a second at least; 4 sigma.
    tolerance = 0.02 + 4 * (true * (1 - true) * (1 / cpu_s / RATE_HZ + 1 / cpu_s / 100)) ** 0.5
    assert abs(shown - true) < tolerance, (shown, true, tolerance)
    if kind == "computes":
        assert shown < 0.02
        assert cpu_s > 0.1
        return
    # An interrupt's own work may be met anywhere, and what enters and leaves the kernel.
    assert samples > 100
    assert right > 0.9 * samples, (right, samples)
    assert inner > 0.3 * samples, (inner, samples)


@needs_root
@pytest.mark.serial
@by_both
def test_both_sides_are_of_one_instant(start_target: StartTarget, tmp_path: Path, collector: Collector) -> None:
    """GIVEN two functions that make a short system call each, in turns by chance THEN no sample shows one of them in
    the system call of the other."""
    target = start_target(all_interpreters()[0], "kernel.py", "turns")
    capture = record(target.pid, tmp_path, rate_hz=2000, seconds=SECONDS, mode=Mode.CPU, collector=collector)
    calls = {"reads_little": ENTRIES["reads"], "looks_up": ENTRIES["stats"]}
    seen = dict.fromkeys(calls, 0)
    for sampled in woven_stacks_of(capture):
        user, functions = split(sampled)
        innermost = next((frame.function for frame in reversed(user) if frame.kind is FrameKind.PYTHON), "")
        for caller, entry in calls.items():
            if any(re.fullmatch(entry, function) for function in functions):
                assert innermost == caller, (functions, [frame.function for frame in user])
                seen[caller] += sampled.ticks
    assert min(seen.values()) > 20, seen


def kernel_stack(pid: int, tid: int) -> list[str]:
    """What the kernel says of a blocked thread, root first."""
    lines = Path(f"/proc/{pid}/task/{tid}/stack").read_text().splitlines()
    return [line.partition("] ")[2].partition("+")[0] for line in reversed(lines)]


@needs_root
@by_both
def test_blocked_threads(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN threads that sleep, select, wait for a lock and in three kinds of read WHEN recorded and dumped THEN each
    stands in the kernel where that says it is, in the function that waits."""
    target = start_target(interpreter, "kernel.py", "waits")
    tids = target.ready["tids"]
    truth = {name: kernel_stack(target.pid, tid) for name, tid in tids.items()}
    assert all(truth.values())
    capture = record(target.pid, tmp_path, rate_hz=100, seconds=0.5, collector=collector)
    shown = {}
    for sampled in woven_stacks_of(capture):
        user, functions = split(sampled)
        assert sampled.state not in ACTIVE
        for frame in user:
            shown[frame.function] = functions
    assert {name: shown[name] for name in tids} == truth
    dump = json.loads(run_weft("dump", "--json", target.pid).stdout)
    dumped = {
        thread["tid"]: [frame["function"] for frame in reversed(thread["frames"]) if frame["kind"] == "kernel"]
        for thread in dump["threads"]
    }
    assert {name: dumped[tid] for name, tid in tids.items()} == truth


@needs_root
@pytest.mark.serial
@by_both
def test_waits_by_turns(start_target: StartTarget, tmp_path: Path, collector: Collector) -> None:
    """GIVEN a thread that waits for a moment in one of four ways by chance, two of them in one system call, THEN each
    wait is shown where the kernel says that threads wait in this way: `bpf` remembers stacks that it has met."""
    blocked = start_target(all_interpreters()[0], "kernel.py", "waits")
    truth = {name: kernel_stack(blocked.pid, tid) for name, tid in blocked.ready["tids"].items()}
    target = start_target(all_interpreters()[0], "kernel.py", "waits_by_turns")
    capture = record(target.pid, tmp_path, rate_hz=RATE_HZ, seconds=SECONDS, collector=collector)
    seen = dict.fromkeys(truth, 0)
    for sampled in woven_stacks_of(capture):
        user, functions = split(sampled)
        innermost = next((frame.function for frame in reversed(user) if frame.kind is FrameKind.PYTHON), "")
        if sampled.state not in ACTIVE and innermost in truth:
            outer = len(truth[innermost])  # the kernel leaves out its scheduler's functions
            assert functions[:outer] == truth[innermost], innermost
            assert all(re.fullmatch(SCHEDULER, function) for function in functions[outer:]), functions[outer:]
            seen[innermost] += sampled.ticks
    assert min(seen[name] for name in ("sleeps", "selects", "waits_for_timer", "waits_for_message")) > 100, seen


def test_ordinary_user(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a user to whom the kernel tells nothing of itself WHEN threads that block and make system calls are
    recorded THEN there are no frames of the kernel, nor others in their place, and the account and doctor say so."""
    capture = tmp_path / "x.weft"
    code = "import os, time\nfor _ in range(2000): os.read(os.open('/dev/zero', 0), 100000)\ntime.sleep(0.5)"
    run = run_weft("record", "-r", 500, "-o", capture, "--", sys.executable, "-c", code, prefix=ordinary())
    assert run.returncode == 0, run.stderr
    assert not any(frame.kind is FrameKind.KERNEL for each in woven_stacks_of(capture) for frame in each.frames)
    account = account_of(capture)
    assert account["kernel_stacks"] == 0
    assert account["kernel_hidden"] > 0
    assert "it tells them to root only; see weft doctor" in run_weft("report", capture).stdout
    doctor = run_weft("doctor", prefix=ordinary()).stdout
    assert re.search(r"warning +kernel frames +stacks end where threads enter the kernel", doctor), doctor
