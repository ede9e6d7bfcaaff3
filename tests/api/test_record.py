"""weft.record(): a program that records itself, in processes of its own as users have them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from privileges import ordinary
from weft_command import LIMIT_S

import weft
from weft.errors import OutputError

WORK = """
import json, os, sys, threading, time
import weft

def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))

def rest(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))

def told(results):
    return {row.function: row.self_ns for row in results.functions if row.function in ("spin", "rest")}
"""


def run(code: str, *prefix: str, status: int = 0, cwd: Path | None = None) -> Any:
    """Run a program that has the functions above; what it tells in its last line."""
    command = [*prefix, sys.executable, "-c", WORK + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S, cwd=cwd)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_block(tmp_path: Path) -> None:
    """What runs in the block is recorded, what runs before and after it is not; the capture has its own name."""
    path = tmp_path / "block.weft"
    told = run(f"""
rest(0.3)
with weft.record({str(path)!r}, rate_hz=500, native=False) as recording:
    spin(1)
rest(0.3)
print(json.dumps([told(recording.results), recording.results.account.complete, recording.warnings]))
""")
    assert told[0].keys() == {"spin"}
    assert told[0]["spin"] > 0.3e9
    assert told[1:] == [True, []]
    with weft.open(path) as results:
        assert results.meta["rate_hz"] == 500
        assert next(row for row in results.functions if row.function == "spin").self_ns == told[0]["spin"]


def test_no_name_leaves_nothing(tmp_path: Path) -> None:
    """The results are there when the file has gone, and so is its folder."""
    told = run(f"""
import tempfile
tempfile.tempdir = {str(tmp_path)!r}
with weft.record(rate_hz=500, native=False) as recording:
    spin(0.5)
recording.results.write({str(tmp_path / "x.folded")!r})
print(json.dumps([os.listdir({str(tmp_path)!r}), "spin" in told(recording.results)]))
""")
    assert told == [["x.folded"], True]
    assert "spin" in (tmp_path / "x.folded").read_text()


def test_a_decorator(tmp_path: Path) -> None:
    """Each call is a recording, and a call within one is part of it; what it returns and raises is passed on."""
    page = tmp_path / "call.html"
    told = run(f"""
recording = weft.record({str(page)!r}, rate_hz=500, native=False)

@recording
def down(depth):
    "counts"
    spin(0.2)
    if depth == 0:
        return "bottom"
    return down(depth - 1)

@weft.record(rate_hz=500)
def fails():
    raise KeyError("mine")

said = [down(3), down.__name__, down.__doc__]
try:
    fails()
except KeyError as error:
    said.append(error.args[0])
first = told(recording.results)["spin"]
down(0)
print(json.dumps([said, first, told(recording.results)["spin"]]))
""")
    assert told[0] == ["bottom", "down", "counts", "mine"]
    assert told[1] > told[2]
    assert page.read_text().startswith("<!doctype html>")


def test_threads_and_the_rest_of_the_process(tmp_path: Path) -> None:
    """All threads of the process are recorded, with their names; the process has no child left at the end."""
    told = run("""
with weft.record(rate_hz=500, native=False) as recording:
    worker = threading.Thread(target=spin, args=(0.6,), name="worker")
    worker.start()
    worker.join()
children = open(f"/proc/self/task/{os.getpid()}/children").read()
threads = {row.tid: row.running_ns for row in recording.results.threads}
ran = worker.native_id in threads and threads[worker.native_id] > 1e8
print(json.dumps([children, ran, recording.results.samples]))
""")
    assert told[0] == ""
    assert told[1] is True
    assert told[2] > 20


def test_as_an_ordinary_user(tmp_path: Path) -> None:
    """Without any privilege: a process may be read by another of its user, which it has named as its tracer."""
    tmp_path.chmod(0o777)
    told = run(
        """
with weft.record(rate_hz=500, native=False) as recording:
    spin(0.5)
print(json.dumps([told(recording.results), recording.results.meta["collector"]]))
""",
        *ordinary(),
        cwd=Path("/"),
    )
    assert told[0]["spin"] > 0.1e9
    assert told[1] == "ptrace"


def test_what_goes_wrong_is_told(tmp_path: Path) -> None:
    """Errors are weft's own, raised where the block begins; the block has not run then, and another one can be."""
    with pytest.raises(OutputError, match="no format is known"):
        weft.record(tmp_path / "x.unknown")
    with pytest.raises(OutputError, match="cannot write"), weft.record(tmp_path / "nowhere" / "x.weft"):
        pytest.fail("the block ran")
    recording = weft.record()
    with pytest.raises(weft.WeftError, match="has not ended"):
        _ = recording.results
    told = run("""
recording = weft.record(rate_hz=100)
try:
    with recording, recording:
        pass
except weft.WeftError as error:
    said = str(error)
with recording:
    spin(0.2)
print(json.dumps([said, "spin" in told(recording.results)]))
""")
    assert told == ["this recording runs already; make another one with weft.record()", True]


def test_a_recorder_that_is_killed() -> None:
    """The program goes on, and is told when its block ends."""
    told = run("""
import signal
try:
    with weft.record(rate_hz=100) as recording:
        child = int(open(f"/proc/self/task/{os.getpid()}/children").read().split()[0])
        os.kill(child, signal.SIGKILL)
        spin(0.1)
except weft.WeftError as error:
    print(json.dumps([type(error).__name__, str(error)]))
""")
    assert told == ["CollectorError", "the recorder of weft.record() ended with status -9"]


def test_where_no_process_may_be_read() -> None:
    """A process that forbids it (prctl(2), PR_SET_DUMPABLE), without privileges: one line that says so."""
    told = run(
        """
import ctypes
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
try:
    with weft.record():
        pass
except weft.WeftError as error:
    print(json.dumps([type(error).__name__, str(error)]))
""",
        *ordinary(),
        cwd=Path("/"),
    )
    assert told[0] == "PermissionDeniedError"
    assert "\n" not in told[1]
