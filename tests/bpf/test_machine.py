"""weft record -a: all processes of the machine, those that begin meanwhile, and the filters."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from interpreters import all_interpreters
from running import StartTarget
from weft_command import LIMIT_S, assert_one_line, run_weft, running_weft, samples_in, wait_until

from weft import Capture, Profile
from weft.profile.tables import View
from weft.sample import FrameKind

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")

SPIN = """
import sys, time
def {name}(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: sum(range(100))
{name}({seconds})
"""
USER = 61234  # whom nobody else has
FILTERED_USER = 61235  # nor this one, but for the test of the filter
SHELL = "i=0; while [ $i -lt 100000000 ]; do i=$((i+1)); done"


@contextmanager
def running(*commands: list[str], **options: object) -> Iterator[list[int]]:
    """Commands, started; in the end they must still run."""
    processes = [subprocess.Popen(command, **options) for command in commands]  # type: ignore[call-overload]
    try:
        yield [process.pid for process in processes]
        assert all(process.poll() is None for process in processes), "all have survived"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def spinning(name: str, seconds: float = 100) -> list[str]:
    """A program whose time is in one function of that name."""
    return [sys.executable, "-c", SPIN.format(name=name, seconds=seconds)]


def record_all(path: Path, seconds: float, *options: object, rate: int = 199) -> None:
    run = run_weft("record", "-a", "-d", seconds, "-r", rate, "-o", path, *options)
    assert run.returncode == 0, run.stderr


def times_of(path: Path, wanted: Callable[[FrameKind, str], bool]) -> Counter[int]:
    """The CPU time of each process, by its pid, in ns, in stacks that have a frame that is wanted."""
    with Capture(path) as capture:
        profile = Profile.from_capture(capture, View(all_frames=True))
        pids = {row.id: row.pid for row in capture.processes()}
        owner = {thread.id: pids[thread.process] for thread in capture.threads()}
    times: Counter[int] = Counter()
    for total in profile.totals:
        frames = (profile.frames[frame] for frame in profile.stacks.path(total.stack))
        if any(wanted(frame.kind, frame.function) for frame in frames):
            times[owner[total.thread]] += total.weight_ns
    return times


def time_in(path: Path, function: str) -> Counter[int]:
    return times_of(path, lambda kind, name: kind is FrameKind.PYTHON and name == function)


def has_python(path: Path, pid: int) -> bool:
    return times_of(path, lambda kind, _: kind is FrameKind.PYTHON)[pid] > 0


def pids_in(path: Path) -> set[int]:
    with Capture(path) as capture:
        return {row.pid for row in capture.processes()}


@pytest.mark.serial  # else other tests' programs are among the busiest, which the report's table has
def test_programs_of_all_kinds(tmp_path: Path) -> None:
    """GIVEN two Python programs and three shells that compute THEN each is there, in its own functions."""
    path = tmp_path / "x.weft"
    shells = [["sh", "-c", SHELL]] * 3  # of more than four processes the report has a table
    with running(spinning("first"), spinning("second"), *shells) as (first, second, shell, *_):
        record_all(path, 4)
    assert list(time_in(path, "first")) == [first]
    assert list(time_in(path, "second")) == [second]
    native = times_of(path, lambda kind, _: kind is FrameKind.NATIVE)
    assert {first, second, shell} <= native.keys()
    told = run_weft("report", path).stdout.splitlines()
    assert re.fullmatch(r"\d+ processes, \d+ of them with Python", told[0]), told[0]
    table = told[told.index("Processes") + 2 :]
    assert {str(first), str(second), str(shell)} <= {word for line in table[:8] for word in line.split()}


@pytest.mark.serial
def test_every_version(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN Python programs of all versions that nobody has named THEN the Python of each is found."""
    path = tmp_path / "x.weft"
    pids = {}
    for interpreter in all_interpreters():
        pid = start_target(interpreter, "shares.py", 600, "loop").pid
        os.setpriority(os.PRIO_PROCESS, pid, 19)  # so many would leave nobody else a CPU
        pids[pid] = interpreter

    def without_python() -> set[str]:
        times = times_of(path, lambda kind, _: kind is FrameKind.PYTHON)
        return {interpreter.name for pid, interpreter in pids.items() if not times[pid]}

    with running_weft("record", "-a", "-r", 199, "-o", path) as weft:
        wait_until(lambda: samples_in(path) > 0 or weft.poll() is not None, "it records")
        deadline = time.monotonic() + LIMIT_S
        while without_python() and weft.poll() is None and time.monotonic() < deadline:
            time.sleep(0.5)
        weft.send_signal(signal.SIGINT)
        _, errors = weft.communicate()
    assert weft.returncode == 0, errors.decode()
    assert not without_python(), errors.decode()


def test_before_python_is_found(tmp_path: Path) -> None:
    """THEN no sample of a program is lost: those from before tell its native stack, and that Python was not known."""
    path = tmp_path / "x.weft"
    with running(spinning("first")) as (pid,):
        record_all(path, 1, rate=10000)
    with Capture(path) as capture:
        (process,) = [row.id for row in capture.processes() if row.pid == pid]
        lost = {loss.reason: loss.count for loss in capture.losses() if loss.process == process and loss.weight_ns}
        told = {loss.reason: loss.count for loss in capture.losses() if loss.process == process and not loss.weight_ns}
    assert lost.keys() <= {"unseen", "late"}
    assert told["runtime-not-found"] > 10


def test_processes_that_begin_meanwhile(tmp_path: Path) -> None:
    """GIVEN children by fork and by exec that begin during the recording THEN their Python stacks are there."""
    program = f"""
import os, subprocess, sys
def in_fork():
    while True: sum(range(100))
sys.stdin.readline()
forked = os.fork()
if forked == 0:
    in_fork()
started = subprocess.Popen({spinning("in_exec")!r})
print(forked, started.pid, flush=True)
sys.stdin.readline()
os.kill(forked, 9), started.kill()
"""
    path = tmp_path / "x.weft"
    pipe = subprocess.PIPE
    with (
        subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as target,
        running_weft("record", "-a", "-r", 199, "-o", path) as weft,
    ):
        assert target.stdin is not None
        assert target.stdout is not None
        wait_until(lambda: samples_in(path) > 0 or weft.poll() is not None, "it records")
        print("go", file=target.stdin, flush=True)
        forked, started = map(int, target.stdout.readline().split())
        for function in ("in_fork", "in_exec"):  # where many programs begin, it takes a while until it comes to one
            wait_until(lambda: bool(time_in(path, function)) or weft.poll() is not None, f"{function} is seen", 0.5)  # noqa: B023
        weft.send_signal(signal.SIGINT)
        _, errors = weft.communicate()
    assert weft.returncode == 0, errors.decode()
    assert list(time_in(path, "in_fork")) == [forked]
    assert list(time_in(path, "in_exec")) == [started]


def test_in_a_container(tmp_path: Path) -> None:
    """GIVEN a program in PID and mount namespaces of its own THEN it is there, by its number outside."""
    path = tmp_path / "x.weft"
    inside = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", *spinning("contained")]
    with running(inside) as (outer,):
        record_all(path, 3)
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    assert list(time_in(path, "contained")) == [int(children[0])]


@pytest.mark.serial
def test_a_storm_of_processes(tmp_path: Path) -> None:
    """GIVEN a shell that starts commands as fast as it can THEN weft keeps up, and sees it and the steady program.

    What has ended when its samples are read is there all the same, and what the kernel knew of it makes room for
    others: a command is sampled behind what tells of its end, too, some hundred times in three seconds.
    """
    path = tmp_path / "x.weft"
    storm = ["sh", "-c", "while :; do /bin/true; done"]
    with running(spinning("steady"), storm, storm) as (steady, shell, _):
        record_all(path, 10, rate=999)
    assert list(time_in(path, "steady")) == [steady]
    assert shell in pids_in(path)
    with Capture(path) as capture:
        account = capture.account()
        starts = len([row for row in capture.processes() if row.parent is not None])
        losses = Counter[str]()
        for loss in capture.losses():
            losses[loss.reason] += loss.count
    assert starts > 1000, "children that were sampled, of thousands"
    assert account["samples_dropped"] == 0
    assert account["samples_taken"] > 0.99 * account["samples_wanted"] > 5000
    assert losses["late"] + losses["exited"] < 0.01 * account["samples_wanted"]
    assert losses["no-room"] == 0


@pytest.mark.serial
def test_what_the_kernel_tells_is_lost(tmp_path: Path) -> None:
    """GIVEN a weft that is stopped for so long that the kernel has to lose what processes do meanwhile THEN that is
    counted, and a shell's child that has become a Python program then, and one that begins behind it, are found."""
    path = tmp_path / "x.weft"
    computes = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo it is known by now"
    becomes = ["sh", "-c", f"read go; {computes}; (read go; exec {shlex.join(spinning('becomes', 4))}); true"]
    storm = ["sh", "-c", "while :; do /bin/true; done"]
    with (
        subprocess.Popen(becomes, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell,
        running_weft("record", "-a", "-r", 199, "-o", path) as weft,
    ):
        assert shell.stdin
        assert shell.stdout
        wait_until(lambda: samples_in(path) > 0 or weft.poll() is not None, "it records")
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        shell.stdout.readline()
        time.sleep(0.5)  # its child is told of, too
        weft.send_signal(signal.SIGSTOP)
        with running(storm, storm):
            time.sleep(3)
            shell.stdin.write(b"go\n")
            shell.stdin.close()
            time.sleep(1)
        weft.send_signal(signal.SIGCONT)
        with running(spinning("later")) as (later,):
            time.sleep(5)
        weft.send_signal(signal.SIGINT)
        assert weft.wait() == 0
    with Capture(path) as capture:
        assert capture.account()["changes_lost"] > 0
    assert "what processes did was lost" in " ".join(run_weft("report", path).stdout.split())
    assert sum(time_in(path, "becomes").values()) > 0.3e9
    assert time_in(path, "later")[later] > 0.3e9


def with_capabilities(*names: str) -> list[str]:
    """Root that has these alone."""
    return ["setpriv", f"--bounding-set=-all,{','.join(f'+{name}' for name in names)}", "--inh-caps=-all"]


def test_what_a_container_is_to_have(tmp_path: Path) -> None:
    """GIVEN root with four capabilities, and nothing else (docs/containers.md) THEN another user's Python program has
    its stacks; without one of those by which memory is read a line says what is missing, and its time is there."""
    path = tmp_path / "x.weft"
    somebody = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    record = ["record", "-a", "-d", 3, "-r", 199, "-o", path]
    python = next((each for each in all_interpreters() if each.name.startswith("system")), None)
    if python is None:
        pytest.skip("no interpreter that another user may start")
    with running([*somebody, *python.command, *spinning("theirs")[1:]]) as (theirs,):
        enough = "bpf", "perfmon", "sys_ptrace", "dac_read_search"
        run = run_weft(*record, prefix=with_capabilities(*enough))
        assert run.returncode == 0, run.stderr
        assert time_in(path, "theirs")[theirs] > 0.3e9
        for missing, said in ((3, "CAP_DAC_READ_SEARCH"), (2, "run weft as root")):
            names = [name for number, name in enumerate(enough) if number != missing]
            run = run_weft(*record, "--user", USER, prefix=with_capabilities(*names))
            assert run.returncode == 0, run.stderr
            assert f"weft: process {theirs} is not ours to read" in run.stderr
            assert said in run.stderr
            assert sum(times_of(path, lambda kind, _: kind is not FrameKind.PYTHON).values()) > 0.3e9


def test_filter_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.weft"
    named = tmp_path / "weft-test-shell"
    shutil.copy("/bin/sh", named)
    with running(spinning("other"), ["sh", "-c", SHELL], [str(named), "-c", SHELL]) as (_, _, shell):
        record_all(path, 2, "--comm", named.name)
    assert pids_in(path) == {shell}


def test_filter_by_user(tmp_path: Path) -> None:
    path = tmp_path / "x.weft"
    somebody = ["setpriv", f"--reuid={FILTERED_USER}", f"--regid={FILTERED_USER}", "--clear-groups"]
    with running(["sh", "-c", SHELL]), running([*somebody, "sh", "-c", SHELL]) as (shell,):
        wait_until(lambda: Path(f"/proc/{shell}").stat().st_uid == FILTERED_USER, "it is another user's")
        record_all(path, 2, "--user", FILTERED_USER)
    assert pids_in(path) == {shell}


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup of our own."""
    roots = [
        path for path in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if (path / "cgroup.procs").exists()
    ]
    path = Path(tempfile.mkdtemp(prefix="weft-test-", dir=roots[0]))
    yield path
    wait_until(lambda: not (path / "cgroup.procs").read_text(), "its processes have ended")
    path.rmdir()


def test_filter_by_cgroup(cgroup: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.weft"
    with running(["sh", "-c", SHELL], ["sh", "-c", SHELL]) as (inside, _):
        (cgroup / "cgroup.procs").write_text(str(inside))
        record_all(path, 2, "--cgroup", f"/{cgroup.name}")
        record_all(tmp_path / "y.weft", 1, "--cgroup", cgroup)
    assert pids_in(path) == pids_in(tmp_path / "y.weft") == {inside}


def test_it_does_not_record_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.weft"
    record = ("record", "-a", "-d", 2, "-r", 999, "-o", path)
    with running(spinning("beside")) as (beside,), running_weft(*record) as weft:
        assert weft.wait() == 0
    assert beside in pids_in(path)
    assert weft.pid not in pids_in(path)


def test_nor_do_programs_that_it_starts() -> None:
    """WHEN root has given up capabilities THEN programs that he starts lack them, too, and have the others."""
    code = """
import subprocess
from weft.capabilities import drop_capabilities
print(open("/proc/self/status").read())
drop_capabilities()
for status in open("/proc/self/status").read(), subprocess.check_output(["cat", "/proc/self/status"], text=True):
    print(status)
"""
    told = subprocess.check_output([sys.executable, "-c", code], text=True)
    before, own, childs = (int(word, 16) for word in re.findall(r"^CapEff:\s*(\w+)$", told, re.MULTILINE))
    kept = {number for number in range(64) if own >> number & 1}
    assert own == childs
    assert kept == {1, 2, 19, 23, 24, 34, 38, 39, 40} & {number for number in range(64) if before >> number & 1}


def capabilities(pid: int) -> int:
    """Those that any thread of a process has, or may take."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            for word in re.findall(r"^Cap(?:Eff|Prm|Inh):\s*(\w+)$", (task / "status").read_text(), re.MULTILINE):
                found |= int(word, 16)
    return found


@pytest.mark.parametrize(
    "options",
    [["-a"], ["-a", "--mode", "wall"], ["-p"], ["-p", "--mode", "alloc"], ["-p", "--mode", "alloc", "-s"]],
    ids=" ".join,
)
def test_it_gives_up_what_it_does_not_need(options: list[str], tmp_path: Path) -> None:
    """GIVEN root THEN no thread of weft may load modules, change its user, or send to raw sockets; nor, once threads
    that were blocked as it came have been looked at, mount or do what else CAP_SYS_ADMIN is for (probes are, too,
    unless they are linked)."""
    admin, module, setuid, raw = 1 << 21, 1 << 16, 1 << 7, 1 << 13
    release = tuple(int(number) for number in os.uname().release.split(".")[:2])
    name = f"beside_{os.getpid()}"  # of the machine, others that run this test are recorded, too
    with running(spinning(name)) as (beside,):
        path = tmp_path / "x.weft"
        which = [*options[:1], *([beside] if options[0] == "-p" else []), *options[1:]]
        with running_weft("record", *which, "-d", 4, "-o", path) as weft:
            wait_until(lambda: len(list(Path(f"/proc/{weft.pid}/task").iterdir())) > 1, "its sampler runs")
            assert not capabilities(weft.pid) & (module | setuid | raw)
            if "alloc" not in options or ("-s" in options and release >= (6, 12)):
                wait_until(lambda: not capabilities(weft.pid) & admin, "the last one is given up")
            assert weft.poll() is None
            assert weft.wait() == 0
    assert list(time_in(path, name)) == [beside] or "alloc" in options  # it asks libc for nothing


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--user", "no-such-user"], "there is no user 'no-such-user'"),
        (["--cgroup", "/no/such/group"], "there is no cgroup '/no/such/group'"),
        (["--collector", "ptrace"], "all of the machine need collector bpf"),
    ],
)
def test_refused(options: list[str], told: str, tmp_path: Path) -> None:
    """THEN one line says why, and no file is left."""
    assert told in assert_one_line(run_weft("record", "-a", "-d", 1, *options, "-o", tmp_path / "x.weft"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options", [["-a", "-p", "1"], ["--comm", "sh", "-p", "1"], ["-a", "-s"], ["-a", "--mode", "gil"]]
)
def test_usage(options: list[str], tmp_path: Path) -> None:
    assert run_weft("record", *options, "-o", tmp_path / "x.weft").returncode == 2
    assert not list(tmp_path.iterdir())
