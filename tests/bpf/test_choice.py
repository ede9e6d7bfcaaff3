"""Which collector records, where nobody says which: bpf where it can, ptrace otherwise, and the account says why."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from privileges import PERF_EVENT_OPEN, filtered, ordinary
from weft_command import LIMIT_S, is_traced, record_until, run_weft, until, wait_until

from weft import Capture, Collector, Options, record_process
from weft.collect.bpf import collector
from weft.collect.choose import collectors_for_command

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")


# Enough for maps, programs and the clocks of the CPUs at 200 Hz; not for what they tell of processes.
FEW_FILES = 60 + 25 * (os.cpu_count() or 1)


def chosen(pid: int, folder: Path, *options: object, prefix: tuple[str, ...] = ()) -> tuple[str, str]:
    """Record a process: the collector, and why it was not bpf. What the report says of it is asserted."""
    path = folder / "x.weft"
    run = record_until(1, pid, path, *options, prefix=prefix)
    assert run.returncode == 0, run.stderr
    with Capture(path) as capture:
        name, reason = str(capture.meta["collector"]), str(capture.meta["collector_reason"])
        assert capture.account()["samples_taken"] > 0
    told = " ".join(run_weft("report", path).stdout.split())
    assert f"collector {name}, paced by" in told
    assert ("not bpf:" in told) == bool(reason)
    assert f"not bpf: {reason}" in told or not reason
    return name, reason


def test_root(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert chosen(busy.pid, tmp_path) == ("bpf", "")


def test_beside_a_debugger(busy: subprocess.Popen[bytes], program: Callable[[str], str], tmp_path: Path) -> None:
    """GIVEN a target that strace traces THEN it is recorded all the same: bpf needs no tracer."""
    with subprocess.Popen([program("strace"), "-f", "-o", "/dev/null", "-p", str(busy.pid)]) as strace:
        wait_until(lambda: is_traced(busy.pid), "strace traces the target")
        assert chosen(busy.pid, tmp_path) == ("bpf", "")
        strace.terminate()


def test_mode_gil(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert chosen(busy.pid, tmp_path, "--mode", "gil") == ("ptrace", "collector bpf does not follow the GIL")


@pytest.mark.parametrize("busy", [ordinary()], indirect=True)
def test_an_ordinary_user(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    name, reason = chosen(busy.pid, tmp_path, prefix=tuple(ordinary()))
    assert name == "ptrace"
    assert "needs CAP_BPF and CAP_PERFMON, or root" in reason


def test_no_perf_events(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN a filter that refuses perf_event_open, as containers have THEN ptrace records, by the wall clock."""
    name, reason = chosen(busy.pid, tmp_path, prefix=tuple(filtered(PERF_EVENT_OPEN)))
    assert name == "ptrace"
    assert "clocks of CPUs" in reason


def test_refused_at_the_last_moment(
    busy: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a kernel that takes the programs, and not what they are to run at THEN ptrace records."""

    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(collector, "attach", refuse)
    seen = until(lambda progress: progress.account.get("samples_taken", 0) > 0)
    record_process(busy.pid, tmp_path / "x.weft", Options(200, LIMIT_S), seen)
    with Capture(tmp_path / "x.weft") as capture:
        assert capture.meta["collector"] == "ptrace"
        assert "its tracepoint sched_switch" in str(capture.meta["collector_reason"])
        assert capture.account()["samples_taken"] > 0


def test_refused_as_the_sampler_begins(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN so few files that none is left for the kernel's events THEN ptrace records, and says why.

    The attempt that failed leaves nothing behind that would be in the way of the next one.
    """
    path = tmp_path / "x.weft"
    limited = ["prlimit", f"--nofile={FEW_FILES}", sys.executable, "-m", "weft"]
    record = ["record", "-p", str(busy.pid), "-d", "1", "-r", "200", "-f", "weft", "-o", str(path)]
    run = subprocess.run([*limited, *record], check=False, capture_output=True, text=True, timeout=LIMIT_S)
    assert run.returncode == 0, run.stderr
    with Capture(path) as capture:
        assert capture.meta["collector"] == "ptrace"
        assert "the sampler cannot begin" in str(capture.meta["collector_reason"])
        assert capture.account()["samples_taken"] > 0


def test_what_is_asked_for(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert chosen(busy.pid, tmp_path, "--collector", "ptrace") == ("ptrace", "")


def test_a_command_is_traced() -> None:
    """THEN a command has a tracer, which alone sees its first instruction and its exit status."""
    assert collectors_for_command(Collector.AUTO) == [Collector.PTRACE]
