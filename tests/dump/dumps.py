"""Make a dump as a user does, by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from interpreters import Interpreter, all_interpreters

WEFT = Path(sys.executable).with_name("weft")


def weft(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run weft and return how it went."""
    command = [str(word) for word in (WEFT, *arguments)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False)


def dump(*arguments: object) -> dict[str, Any]:
    """What `weft dump --json` says, without the native frames."""
    told = woven_dump(*arguments)
    for thread in told["threads"]:
        thread["frames"] = [frame for frame in thread["frames"] if frame["kind"] == "python"]
    return told


def woven_dump(*arguments: object) -> dict[str, Any]:
    """What `weft dump --json` says."""
    run = weft("dump", "--json", *arguments)
    assert run.returncode == 0, run.stderr
    told: dict[str, Any] = json.loads(run.stdout)
    return told


def frames_of(thread: dict[str, Any]) -> list[list[Any]]:
    """The frames of a thread in the form of tests/targets/walk.py: root first."""
    keys = ("function", "file", "line", "end_line", "column", "end_column")
    return [[frame[key] for key in keys] for frame in reversed(thread["frames"])]


def expected(target: Any) -> dict[int, list[list[Any]]]:
    """What a target told of its own threads; a subinterpreter's stack goes on from where its thread entered it."""
    stacks: dict[int, list[list[Any]]] = {}
    for told in sorted(target.ready["stacks"], key=lambda told: told["interpreter"]):
        stacks.setdefault(told["tid"], []).extend(told["frames"])
    return stacks


def shown(told: dict[str, Any], stacks: dict[int, list[list[Any]]]) -> dict[int, list[list[Any]]]:
    """The stacks of the threads that run Python, by TID; columns left out where the target cannot tell them."""
    found = {thread["namespace_tid"]: frames_of(thread) for thread in told["threads"] if thread["python"]}
    for tid, frames in found.items():
        for frame, other in zip(frames, stacks[tid], strict=False):
            if other[3] is None:
                frame[3:] = other[3:]
    return found


def settle(target: Any) -> None:
    """Wait until every thread of a target is in the read that never returns: it tells of itself just before."""
    tasks = list(Path(f"/proc/{target.pid}/task").iterdir())
    while not all((task / "syscall").read_text().startswith("0 ") for task in tasks):
        time.sleep(0.01)


def wait_until_blocked(pid: int, tids: list[int]) -> None:
    """Wait until these threads are in a system call, as far as the kernel says."""
    while any(Path(f"/proc/{pid}/task/{tid}/syscall").read_text().startswith("running") for tid in tids):
        time.sleep(0.01)


def newest() -> Interpreter:
    """One interpreter, for what does not depend on the version: the newest that runs outside of a chroot."""
    return [interpreter for interpreter in all_interpreters() if not interpreter.chroot][-1]
