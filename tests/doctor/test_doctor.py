"""weft doctor: says what is so, in machines that are made to lack what recording needs."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from interpreters import Interpreter, all_interpreters
from running import StartTarget

from weft import doctor
from weft.doctor import Verdict

WEFT = Path(sys.executable).with_name("weft")
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else, or mount")

Found = dict[str, tuple[str, str, str]]  # name -> verdict, found, advice


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in (WEFT, "doctor", *arguments)], capture_output=True, text=True)


def found(checks: list[doctor.Check]) -> Found:
    return {check.name: (check.verdict.value, check.found, check.advice) for check in checks}


def elsewhere(prepare: Callable[[], object], check: Callable[[], list[doctor.Check]] = doctor.check_machine) -> Found:
    """What a check finds in a child that was prepared for it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            prepare()
            os.write(write, json.dumps(found(check())).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    assert told, "the child failed"
    return {name: tuple(row) for name, row in json.loads(told).items()}


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as after an exec


def forbid(number: int) -> Callable[[], None]:
    """Make the kernel refuse one system call with EPERM, as a container's seccomp filter does."""

    def prepare() -> None:
        # struct sock_filter {code, jt, jf, k}: load the number; if it is not this one, allow (linux/seccomp.h).
        code = b"".join(
            struct.pack("<HBBI", *instruction)
            for instruction in [
                (0x20, 0, 0, 0),
                (0x15, 0, 1, number),
                (6, 0, 0, 0x50000 | errno.EPERM),
                (6, 0, 0, 0x7FFF0000),
            ]
        )
        filter_ = ctypes.create_string_buffer(code)
        program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(filter_)))
        libc = ctypes.CDLL(None)
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert libc.prctl(22, 2, program) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER

    return prepare


def test_this_machine() -> None:
    """GIVEN the machine that the tests run on: doctor agrees with itself, and tells each check once."""
    told = json.loads(run("--json").stdout)
    names = [check["name"] for check in told["checks"]]
    assert names == list(dict.fromkeys(names))
    assert told["works"] == all(check["verdict"] != "no" for check in told["checks"])
    assert run().returncode == (0 if told["works"] else 1)
    assert all(name in run().stdout for name in names)


@pytest.mark.parametrize(
    ("number", "name", "verdict"),
    [(101, "ptrace", Verdict.NO), (310, "memory", Verdict.NO), (298, "cpu clocks", Verdict.WARNING)],
    ids=["ptrace", "process_vm_readv", "perf_event_open"],
)
def test_seccomp(number: int, name: str, verdict: Verdict) -> None:
    """GIVEN a seccomp filter that refuses one system call: that one check fails, and says what to do."""
    here, there = found(doctor.check_machine()), elsewhere(forbid(number))
    if here[name][0] != Verdict.OK:
        pytest.skip(f"{name} does not work here anyway")
    assert there[name][0] == verdict
    assert "seccomp" in there[name][2]
    changed = {other for other in here if here[other][0] != there[other][0]}
    also = {"ptrace": {"attach"}, "cpu clocks": {"kernel frames", "collector bpf", "allocations"}}  # which need it, too
    assert changed == {name} | also.get(name, set())


@needs_root
def test_as_an_ordinary_user() -> None:
    """GIVEN a user without privilege: what he can record depends on settings; that he can launch does not."""
    told = elsewhere(become_nobody)
    assert told["ptrace"][0] == told["memory"][0] == Verdict.OK
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    restricted = scope.exists() and scope.read_text().strip() != "0"
    assert told["attach"][0] == (Verdict.WARNING if restricted else Verdict.OK)
    assert ("processes of this user" in told["attach"][1]) != restricted
    assert told["cpu clocks"][0] == Verdict.OK or "perf_event_paranoid" in told["cpu clocks"][1] + told["cpu clocks"][2]


@needs_root
def test_hidepid() -> None:
    """GIVEN a /proc that shows a user only his own processes."""

    def prepare() -> None:
        libc = ctypes.CDLL(None)
        assert libc.unshare(0x20000) == 0  # CLONE_NEWNS
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "proc", "-o", "hidepid=2", "proc", "/proc"], check=True)
        become_nobody()

    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("no mount namespaces here")
    told = elsewhere(prepare)
    assert told["/proc"][0] == Verdict.WARNING
    assert "hidepid" in told["/proc"][2]


def test_few_files() -> None:
    """GIVEN a low limit of open files."""
    told = elsewhere(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
    threads = 256 // (4 + len(os.sched_getaffinity(0)))  # four files of /proc, and a clock on each CPU
    assert told["open files"] == (
        "warning",
        f"at most 256: enough to record {threads} threads",
        "raise the limit: ulimit -Hn 65536, as root",
    )


def test_a_python_process(interpreter: Interpreter, start_target: StartTarget) -> None:
    """GIVEN each version of Python: it is found, and doctor's exit status says that it can be recorded."""
    target = start_target(interpreter, "blocked.py")
    told = json.loads(run("--json", target.pid).stdout)
    checks = {check["name"]: check for check in told["checks"]}
    assert told["works"]
    version = ".".join(map(str, interpreter.version))
    assert checks["python"]["found"].startswith(f"CPython {version}")
    assert checks["python"]["found"].endswith("the layout is proven")
    assert checks["threads"]["found"] == "it has 4 threads"
    assert checks["namespaces"]["found"] == "the same as ours"


@needs_root
def test_other_namespaces(tmp_path: Path) -> None:
    """GIVEN a Python in mount and PID namespaces of its own, as in a container."""
    interpreter = next(i for i in all_interpreters() if not i.chroot)
    program = f"{interpreter.command[0]} -c 'import time; print(1); time.sleep(60)'"
    unshare = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        f"exec {program.replace('print(1)', PRINT)}",
    ]
    process = subprocess.Popen(unshare, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            pytest.skip("no namespaces here")
        inner = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        told = found(doctor.check_process(inner))
        assert told["namespaces"][:2] == (
            "ok",
            f"it has its own mount and PID namespace: files are read through /proc/{inner}/root",
        )
        assert told["python"][0] == "ok"
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


PRINT = "import sys; print(1); sys.stdout.flush()"


@pytest.fixture
def sleep() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_no_python(sleep: subprocess.Popen[bytes]) -> None:
    """GIVEN a program that runs no Python."""
    told = found(doctor.check_process(sleep.pid))
    assert told["python"][:2] == ("no", f"process {sleep.pid} (sleep) runs no Python that weft knows")
    assert run(sleep.pid).returncode == 1


@needs_root
def test_another_users_process(sleep: subprocess.Popen[bytes]) -> None:
    """GIVEN root's process and an ordinary user."""
    told = elsewhere(become_nobody, lambda: doctor.check_process(sleep.pid))
    assert told["access"][0] == "no"
    assert "it runs as another user; run weft as root (sudo), or as that user" in told["access"][1]
    assert "python" not in told


def test_traced(sleep: subprocess.Popen[bytes]) -> None:
    """GIVEN a process that another tracer holds."""
    seize = (
        "import ctypes, sys; assert ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None) == 0;"
        "print(1, flush=True); sys.stdin.read()"
    )
    tracer = subprocess.Popen(
        [sys.executable, "-c", seize, str(sleep.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert tracer.stdout is not None
    assert tracer.stdout.readline() == b"1\n"
    told = found(doctor.check_process(sleep.pid))
    assert told["tracer"][0] == "no"
    assert told["tracer"][1].startswith(f"process {tracer.pid} traces it")
    tracer.communicate()


def test_gone() -> None:
    """GIVEN a PID that nobody has, and one whose process has ended and was not waited for."""
    assert found(doctor.check_process(2**22 + 1))["process"][:2] == ("no", "no process has the PID 4194305")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    told: Any = found(doctor.check_process(child))
    os.waitpid(child, 0)
    assert told == {"process": ("no", f"process {child} has ended and waits for its parent (a zombie)", "")}


def test_it_leaves_nothing_behind() -> None:
    """GIVEN the processes that doctor starts to try things on: they are gone when it is."""
    before = _processes_of_this_program()
    found(doctor.check_machine())
    for _ in range(1000):
        if _processes_of_this_program() <= before:
            return
        os.sched_yield()
    assert _processes_of_this_program() <= before


def _processes_of_this_program() -> set[int]:
    ours = Path("/proc/self/cmdline").read_bytes()
    pids = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cmdline").read_bytes() == ours:
                pids.add(int(entry.name))
        except OSError:
            continue
    return pids
