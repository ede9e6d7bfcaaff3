"""The command line as a user has it: `weft` in a process of its own; and what the kernel says of a target."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WEFT = [sys.executable, "-m", "weft"]
LIMIT_S = 120  # a machine under load is slow; this only ends what will never end


def start_weft(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Start weft with these arguments; its stdout and stderr are pipes unless `options` (of Popen) say otherwise."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*WEFT, *map(str, arguments)], **{**pipes, **options})


@contextmanager
def running_weft(*arguments: object, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start weft, and kill it in the end if it still runs: a test that fails must not wait for it."""
    with start_weft(*arguments, **options) as weft:
        try:
            yield weft
        finally:
            weft.kill()


def run_weft(*arguments: object, prefix: Sequence[str] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    """Run weft to its end. `prefix` is a command that runs it, such as setpriv."""
    settings = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": LIMIT_S, **options}
    return subprocess.run([*prefix, *WEFT, *map(str, arguments)], check=False, **settings)


def assert_one_line(run: subprocess.CompletedProcess[str], *, status: int = 1) -> str:
    """The run failed as errors must: nothing on stdout, one line on stderr. Gives the line."""
    assert run.returncode == status, run.stderr
    assert run.stdout == ""
    lines = run.stderr.splitlines()
    assert len(lines) == 1, run.stderr
    assert lines[0].startswith("weft: ")
    return lines[0]


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that must come about."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came about: {what}"
        time.sleep(0.002)


def task_states(pid: int) -> dict[int, tuple[str, int]]:
    """Each thread's state letter and the PID of its tracer (0: none), by /proc/PID/task/TID/status."""
    states = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text(errors="replace").splitlines()
        except OSError:
            continue  # it has ended
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        states[int(task.name)] = (fields["State"][0], int(fields["TracerPid"]))
    return states


def is_let_go(pid: int) -> bool:
    """Whether no thread is traced or stopped."""
    return all(state not in "tT" and tracer == 0 for state, tracer in task_states(pid).values())


def is_traced(pid: int) -> bool:
    """Whether some thread has a tracer."""
    return any(tracer for _, tracer in task_states(pid).values())


def wait_until_traced(pid: int, weft: subprocess.Popen[bytes]) -> None:
    """Wait until weft has taken hold of a target; an error where weft ends instead."""
    wait_until(lambda: is_traced(pid) or weft.poll() is not None, "weft traces the target")
    if weft.poll() is not None:
        raise AssertionError(f"weft ended with {weft.returncode}: {weft.communicate()[1].decode()}")


def cpu_ns(pid: int) -> int:
    """The CPU time of all threads of a process, by schedstat."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total
