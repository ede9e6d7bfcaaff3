"""Following with -s: every process that a command starts is in the capture, however it was started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from running import StartTarget, target_env
from weft_command import LIMIT_S, WEFT, run_weft, running_weft, samples_in, wait_until, wait_until_traced

from weft import Capture, Profile
from weft.profile.tables import View


def functions_of(path: Path) -> dict[int, set[str]]:
    """PID -> the functions that were seen in it; of every process of a capture."""
    with Capture(path) as capture:
        seen: dict[int, set[str]] = {process.pid: set() for process in capture.processes()}
        pids = {process.id: process.pid for process in capture.processes()}
        owners = {thread.id: pids[thread.process] for thread in capture.threads()}
        profile = Profile.from_capture(capture, View(idle=True))
    for total in profile.totals:
        frames = profile.stacks.path(total.stack)
        seen[owners[total.thread]] |= {profile.frames[frame].function for frame in frames}
    return seen


def statuses_of(path: Path) -> dict[int, int | None]:
    """PID -> the status that its last program ended with, as of wait(2)."""
    with Capture(path) as capture:
        return {process.pid: process.exit_status for process in capture.processes()}


@pytest.fixture
def newest() -> Interpreter:
    """One version, for what has nothing to do with the version."""
    return next(one for one in reversed(all_interpreters()) if one.chroot is None)


def test_every_kind_of_child(
    interpreter: Interpreter, target_folder: Callable[[Interpreter], Path], tmp_path: Path
) -> None:
    """GIVEN fork, exec, vfork, posix_spawn, shells, multiprocessing and grandchildren WHEN the command is launched.

    THEN each is a process with its status, and the Python ones show the function that they are busy in.
    """
    output = tmp_path / "x.weft"
    program = [*interpreter.command, interpreter.inside(target_folder(interpreter) / "children.py"), "3"]
    run = run_weft("record", "-s", "-r", "500", "-o", output, "--", *program, env=target_env())
    assert run.returncode == 0, run.stderr
    _, told = map(json.loads, run.stdout.splitlines())
    assert told["failed"] == []
    functions, statuses = functions_of(output), statuses_of(output)
    for child in told["tree"]:
        assert child["pid"] in functions, child
        assert statuses[child["pid"]] == 0, child
        if child["python"] and child["kind"] not in ("short", "parent"):
            assert any(name.startswith("busy_") for name in functions[child["pid"]]), (child, run.stderr)


@pytest.mark.serial
@pytest.mark.parametrize("collector", ["peek", "bpf"])
def test_without_a_tracer(
    collector: str, newest: Interpreter, target_folder: Callable[[Interpreter], Path], tmp_path: Path
) -> None:
    """GIVEN the same under peek, which nobody tells of children, and bpf THEN those that live long are found."""
    output = tmp_path / "x.weft"
    program = [*newest.command, newest.inside(target_folder(newest) / "children.py"), "3"]
    run = run_weft("record", "-s", "--collector", collector, "-o", output, "--", *program, env=target_env())
    assert run.returncode == 0, run.stderr
    _, told = map(json.loads, run.stdout.splitlines())
    functions = functions_of(output)
    for child in told["tree"]:
        if child["python"] and child["kind"] not in ("short", "parent"):
            assert any(name.startswith("busy_") for name in functions[child["pid"]]), (child, run.stderr)


@pytest.mark.parametrize("collector", ["ptrace", "peek", "bpf"])
@pytest.mark.parametrize("way", ["main", "thread", "sleep"])
def test_a_process_that_becomes_another(
    way: str, collector: str, newest: Interpreter, start_target: StartTarget, tmp_path: Path
) -> None:
    """GIVEN exec in place, by the first thread or by another one WHEN it is recorded THEN both programs are there."""
    output = tmp_path / "x.weft"
    target = start_target(newest, "replaces.py", 2, way)
    with running_weft("record", "-p", target.pid, "--collector", collector, "-r", "200", "-o", output) as weft:
        wait_until(lambda: samples_in(output) > 0 or weft.poll() is not None, "it is recorded", 0.05)
        # Of three threads that want the GIL, this one may have had none of it yet.
        wait_until(lambda: "before" in functions_of(output)[target.pid] or weft.poll() is not None, "it is seen", 0.05)
        assert target.process.stdin is not None
        target.process.stdin.close()
        _, errors = weft.communicate()
    assert weft.returncode == 0, errors.decode()
    with Capture(output) as capture:
        first, second = capture.processes()
    assert (first.pid, second.pid) == (target.pid, target.pid)
    assert second.parent == first.id
    status = 0 if way == "sleep" else 5 << 8
    assert second.exit_status == (status if collector == "ptrace" else None)  # only a tracer is told
    assert functions_of(output)[target.pid] >= ({"before"} if way == "sleep" else {"before", "after"})


BLOCKED_THEN_EXEC = """
import json, os, sys, threading
def before():
    while True:
        sum(range(1000))
threading.Thread(target=before, daemon=True).start()
print(json.dumps({"pid": os.getpid()}), flush=True)
os.read(0, 1)
os.execv(sys.executable, [sys.executable, "-c", '''
import time
def after(end):
    while time.process_time() < end:
        sum(range(1000))
after(time.process_time() + 1)
'''])
"""


def test_a_blocked_thread_that_becomes_another_program(tmp_path: Path) -> None:
    """GIVEN a thread that was never sampled, as it never ran WHEN it calls exec THEN that does not go unseen.

    If it did, the new program would be read with the places of the old one's interpreter.
    """
    output = tmp_path / "x.weft"
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKED_THEN_EXEC], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as target:
        assert target.stdout is not None
        target.stdout.readline()
        with running_weft("record", "--collector", "ptrace", "-p", target.pid, "-r", "200", "-o", output) as weft:
            wait_until(lambda: samples_in(output) > 20 or weft.poll() is not None, "it was looked at before", 0.05)
            target.communicate(b"!")
            _, errors = weft.communicate()
            assert weft.returncode == 0, errors.decode()
    assert functions_of(output)[target.pid] >= {"before", "after"}


DAEMON = """
import os, sys, time
def daemon(end):
    while time.time() < end:
        sum(range(1000))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        daemon(time.time() + 1.5)
        open(sys.argv[1], "w").write(str(os.getpid()))
    os._exit(0)
os.wait()
"""


def test_a_daemon(tmp_path: Path) -> None:
    """GIVEN a process that leaves its session and outlives its parent THEN it is recorded to its own end."""
    output, mark = tmp_path / "x.weft", tmp_path / "pid"
    run = run_weft("record", "-s", "-r", "200", "-o", output, "--", sys.executable, "-c", DAEMON, mark)
    assert run.returncode == 0, run.stderr
    assert "daemon" in functions_of(output)[int(mark.read_text())]


STARVED_CHILD = """
import os, sys, time
def urgent():
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(2))
def daemon(end):
    while time.time() < end:
        sum(range(1000))
os.sched_setaffinity(0, {0})
urgent()
if os.fork() == 0:
    urgent()
    with open(sys.argv[2], "w") as go:
        go.write("!")
    if os.fork() == 0:
        daemon(time.time() + 1)
        open(sys.argv[1], "w").write(str(os.getpid()))
    os._exit(0)
os.wait()
"""

GREEDY = """
import os, sys, time
os.sched_setaffinity(0, {0})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
open(sys.argv[1]).read()
end = time.monotonic() + 0.3
while time.monotonic() < end:
    pass
"""


def test_a_child_that_runs_when_all_others_have_ended(tmp_path: Path) -> None:
    """GIVEN a child that gets no processor until its parents are gone THEN the recording waits for it."""
    output, mark, go = tmp_path / "x.weft", tmp_path / "pid", tmp_path / "go"
    os.mkfifo(go)
    with subprocess.Popen([sys.executable, "-c", GREEDY, go]):
        command = [sys.executable, "-c", STARVED_CHILD, mark, go]
        run = run_weft("record", "-s", "-r", "200", "-o", output, "--", *command)
    assert run.returncode == 0, run.stderr
    assert "daemon" in functions_of(output)[int(mark.read_text())]


END_AT_ONCE = """
import os
for _ in range(1000):
    if os.fork() == 0:
        os._exit(3)
    os.wait()
"""


def test_children_that_end_at_once(tmp_path: Path) -> None:
    """GIVEN children that may have ended before their parent's fork is reported THEN each is told once, as it ended."""
    output = tmp_path / "x.weft"
    run = run_weft("record", "-s", "-o", output, "--", sys.executable, "-c", END_AT_ONCE)
    assert run.returncode == 0, run.stderr
    with Capture(output) as capture:
        parent, *children = capture.processes()
    assert (parent.exit_status, len(children)) == (0, 1000)
    assert {child.exit_status for child in children} == {3 << 8}
    assert len({child.pid for child in children}) == 1000


SLOW_END = """
import mmap, os
memory = mmap.mmap(-1, 1 << 30)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(memory), mmap.PAGESIZE):
    memory[at] = 1
os._exit(0)
"""


def test_a_process_that_takes_long_to_end(tmp_path: Path) -> None:
    """GIVEN a process whose memory is being taken away as it ends THEN it is not taken for a new program."""
    output = tmp_path / "x.weft"
    run = run_weft("record", "--collector", "peek", "-o", output, "--", sys.executable, "-c", SLOW_END)
    assert run.returncode == 0, run.stderr
    with Capture(output) as capture:
        assert len(list(capture.processes())) == 1


def test_a_shell_that_starts_python(tmp_path: Path) -> None:
    """GIVEN a shell as the command THEN with -s its Python is recorded; without, weft says how."""
    output = tmp_path / "x.weft"
    code = "import time\nend = time.time() + 1\nwhile time.time() < end: sum(range(1000))"
    command = ["sh", "-c", '"$0" -c "$1"; exit 4', sys.executable, code]
    run = run_weft("record", "-r", "200", "-o", output, "--", *command)
    assert (run.returncode, run.stdout) == (4, "")
    assert "no Python was found in 'sh'; with -s its subprocesses are recorded, too" in run.stderr
    run = run_weft("record", "-s", "-r", "200", "-o", output, "--", *command)
    assert (run.returncode, run.stdout) == (4, "")
    assert [line.split(":")[:2] for line in run.stderr.splitlines()] == [["weft", f" wrote {output}"]]
    assert any("<module>" in functions for functions in functions_of(output).values())


def test_many_children_at_once(tmp_path: Path) -> None:
    """GIVEN 300 processes in a row that live for milliseconds THEN all are there: none escapes, none is left held."""
    output = tmp_path / "x.weft"
    shell = "i=0; while [ $i -lt 300 ]; do /bin/true & i=$((i+1)); done; wait; echo done"
    run = run_weft("record", "-s", "-o", output, "--", "sh", "-c", shell)
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    with Capture(output) as capture:
        ends = [process.exit_status for process in capture.processes() if process.command[:1] == ["/bin/true"]]
        pids = {process.pid for process in capture.processes()}
    assert len(pids) == 301
    assert set(ends) <= {0}


def test_a_fork_that_had_begun(newest: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a process that forks all the time WHEN it is attached to in the midst of a fork THEN no child escapes.

    The kernel has decided by then that nobody is to be told of that child.
    """
    for attempt in range(3):
        target = start_target(newest, "forks.py", 5)
        output = tmp_path / f"{attempt}.weft"
        with running_weft("record", "--collector", "ptrace", "-s", "-p", target.pid, "-r", "100", "-o", output) as weft:
            wait_until_traced(target.pid, weft)
            attached = time.time()
            ended = target.next_line()["ended"]
            _, errors = weft.communicate()
            assert weft.returncode == 0, errors.decode()
        pids = statuses_of(output).keys()
        # They live for a second; some have not long to go when they are come to.
        assert {int(pid) for pid, at in ended.items() if at > attached + 0.6} <= pids


@pytest.mark.parametrize(
    "namespaces", [["--mount"], ["--pid", "--fork"], ["--user"], ["--pid", "--fork", "--mount-proc"]]
)
def test_namespaces(namespaces: list[str], tmp_path: Path) -> None:
    """GIVEN a command that moves into other namespaces, as containers do THEN its Python is recorded all the same."""
    probe = subprocess.run(["unshare", *namespaces, "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"unshare {namespaces} is not allowed here: {probe.stderr.decode().strip()}")
    output = tmp_path / "x.weft"
    program = "from time import process_time as now\ndef inside():\n    while now() < 1: sum(range(1000))\ninside()"
    command = ["unshare", *namespaces, sys.executable, "-c", program]
    run = subprocess.run(
        [*WEFT, "record", "-s", "-r", "200", "-o", output, "--", *command],
        capture_output=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert run.returncode == 0, run.stderr.decode()
    assert any("inside" in functions for functions in functions_of(output).values())
