"""Native stacks of threads that are blocked when they are looked at: nothing interrupted them in user mode."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from interpreters import Interpreter, all_interpreters
from recordings import account_of, record, woven_stacks_of
from running import StartTarget
from weft_command import run_weft

from weft import Collector, _native, session
from weft.sample import FrameFlag, FrameKind, State
from weft.target.code import CodeBook

by_both = pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
SLEEPS = """
import json, os, time
def key(value):
    time.sleep(0.02)
print(json.dumps({"pid": os.getpid()}))
__import__("sys").stdout.flush()
while True:
    [1].sort(key=key)
"""

READS = """
import json, os, sys, threading, time
def sleep(depth):
    list(map(sleep, [depth - 1])) if depth else time.sleep(100)
for _ in range(int(sys.argv[1])):
    thread = threading.Thread(target=sleep, args=(120,))
    thread.daemon = True
    thread.start()
print(json.dumps({"pid": os.getpid()}))
__import__("sys").stdout.flush()
os.read(0, 1)
"""


@by_both
def test_sleeps_in_a_callback(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN a thread that sleeps again and again, called from C WHEN it is recorded THEN its stacks are whole.

    Where the interpreter is compiled with frame pointers (3.15), its first sleep cannot be: only the next one tells the
    registers.
    """
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    target = start_target(interpreter, tmp_path / "sleeps.py")
    path = record(target.pid, tmp_path, rate_hz=500, seconds=2, collector=collector)
    stacks = [sampled for sampled in woven_stacks_of(path) if sampled.state is State.SLEEPING]
    whole = [sampled for sampled in stacks if all(frame.kind is not FrameKind.MARKER for frame in sampled.frames)]
    for sampled in whole:
        names = [frame.function for frame in sampled.frames if frame.kind is FrameKind.PYTHON]
        assert names == ["<module>", "key"]
        seams = [frame for frame in sampled.frames if frame.flags & (FrameFlag.COUNTED | FrameFlag.OPEN)]
        assert not seams
    assert sum(s.weight_ns for s in whole) > 0.9 * sum(s.weight_ns for s in stacks) > 0


@by_both
@pytest.mark.parametrize("threads", [101, 401])
def test_tables_come_late(
    threads: int, start_target: StartTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    """GIVEN threads that stay blocked WHEN the C library's table comes later THEN their stacks are told as they are.

    Not all stacks of 401 threads fit into the 32 MB that are kept: they are told again.
    """
    map_of = CodeBook.map_of

    def slow(book: CodeBook, *arguments: Any, **options: Any) -> _native.CodeMap:
        time.sleep(0.5)
        return map_of(book, *arguments, **options)

    monkeypatch.setattr(session, "_TABLES_TIME", 0.0)
    monkeypatch.setattr(CodeBook, "map_of", slow)
    (tmp_path / "reads.py").write_text(READS)
    target = start_target(all_interpreters()[0], tmp_path / "reads.py", threads - 1)
    stacks = woven_stacks_of(record(target.pid, tmp_path, rate_hz=100, seconds=3, collector=collector))
    cut = [sampled for sampled in stacks if any(frame.kind is FrameKind.MARKER for frame in sampled.frames)]
    whole = [sampled for sampled in stacks if sampled not in cut]
    assert len({sampled.thread for sampled in whole}) == threads
    assert not cut or threads > 250
    assert cut or threads < 250 or collector is Collector.BPF  # which tells a stay as it is known when it is over
    assert sum(sampled.weight_ns for sampled in whole) > sum(sampled.weight_ns for sampled in cut)


def test_python_alone(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a thread that is called from C WHEN native frames are not wanted THEN there are Python's, and no others."""
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    target = start_target(all_interpreters()[0], tmp_path / "sleeps.py")
    capture = tmp_path / "x.weft"
    assert run_weft("record", "--no-native", "-p", target.pid, "-d", 1, "-o", capture).returncode == 0
    chains = {tuple((frame.kind, frame.function) for frame in sampled.frames) for sampled in woven_stacks_of(capture)}
    python = ((FrameKind.PYTHON, "<module>"), (FrameKind.PYTHON, "key"))
    assert python in chains
    assert chains <= {python, python[:1]}
    assert account_of(capture)["native_whole"] == 0
    (thread,) = json.loads(run_weft("dump", "--no-native", "--json", target.pid).stdout)["threads"]
    assert {frame["kind"] for frame in thread["frames"]} == {"python"}
    assert thread["frames"][-1]["function"] == "<module>"
