"""weft in a PID namespace of its own, as in a container: it sees what is in there, by the numbers that count there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_machine import running, spinning, time_in
from weft_command import WEFT, assert_one_line, run_weft

from weft import Capture

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")

INSIDE = ["unshare", "--pid", "--fork", "--kill-child"]
# Starts two programs, the second in a namespace within this one; tells their pids, and runs weft with the arguments
# that it is given, of which PID is that of the first.
DRIVER = """
import json, pathlib, subprocess, sys, time
first, second, weft = json.loads(sys.argv[1])
first, second = subprocess.Popen(first), subprocess.Popen(second)
children = pathlib.Path(f"/proc/{second.pid}/task/{second.pid}/children")
while not children.read_text().split():
    time.sleep(0.01)
nested = int(children.read_text())
while b"python" not in pathlib.Path(f"/proc/{nested}/cmdline").read_bytes():
    time.sleep(0.01)
print(json.dumps([first.pid, nested]), flush=True)
weft = subprocess.run([word.replace("PID", str(first.pid)) for word in weft], stdout=subprocess.DEVNULL)
first.kill()
second.kill()
sys.exit(weft.returncode)
"""


def record_inside(*options: object) -> tuple[int, int]:
    """The pids of the two programs there."""
    nested = [*INSIDE, "--mount-proc", *spinning("nested")]
    programs = json.dumps([spinning("inside"), nested, [*WEFT, "record", *map(str, options)]])
    run = subprocess.run(
        [*INSIDE, "--mount-proc", sys.executable, "-c", DRIVER, programs], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    first, second = json.loads(run.stdout)
    return first, second


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_the_machine(mode: str, tmp_path: Path) -> None:
    """GIVEN processes in weft's namespace, in one within it, and outside THEN the first two are there, by the numbers
    that they have in weft's namespace, and nothing of the third."""
    path = tmp_path / "x.weft"
    with running(spinning("outside")):
        inside, nested = record_inside("-a", "-d", 4, "-r", 199, "--mode", mode, "-o", path)
    assert list(time_in(path, "inside")) == [inside]
    assert list(time_in(path, "nested")) == [nested]
    assert not time_in(path, "outside")
    with Capture(path) as capture:
        assert {row.pid for row in capture.processes()} >= {inside, nested}


def test_a_process(tmp_path: Path) -> None:
    """THEN -p takes the collector bpf there, too."""
    path = tmp_path / "x.weft"
    inside, _ = record_inside("-p", "PID", "-d", 2, "-r", 199, "-o", path)
    with Capture(path) as capture:
        assert capture.meta["collector"] == "bpf"
        account = capture.account()
        assert account["stacks_in_kernel"] > 0
    assert list(time_in(path, "inside")) == [inside]


def test_the_proc_of_another_namespace(tmp_path: Path) -> None:
    """GIVEN a namespace whose /proc is still the outer one's THEN one line says so: its numbers are not weft's."""
    run = run_weft("record", "-a", "-d", 1, "-o", tmp_path / "x.weft", prefix=INSIDE)
    assert "/proc is that of another PID namespace" in assert_one_line(run)
    assert not list(tmp_path.iterdir())
