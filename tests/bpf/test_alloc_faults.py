"""Mode alloc where something is in its way, and what it leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from privileges import ordinary
from running import TARGETS, Target, target_env
from weft_command import LIMIT_S, assert_one_line, run_weft, running_weft, wait_until
from zig import GLIBC, MUSL, compile_with_zig

from weft import Capture, Mode, Options, Profile, record_process
from weft.collect.allocations import AllocationFollower
from weft.collect.bpf import allocator, kernel
from weft.collect.bpf.allocator import AllocatorProbes
from weft.collect.sampler import Event, EventKind, Sampler
from weft.cpython.locate import Runtime
from weft.errors import CollectorError
from weft.target.elf import ElfFile
from weft.target.process import Process

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs")

BREAKPOINT = b"\xcc"  # int3, which the kernel puts where a probe is
CHURN = """
import sys
print("{}", flush=True)
count = 0
def churns():
    global count
    while True:
        bytearray(100_000)
        count += 1
        if count % 10_000 == 0: print('{"count": %d}' % count, flush=True)
churns()
"""
FAMILY = """
import os, subprocess, sys, time
def allocates():
    for _ in range(50): bytearray(4 << 20)
def in_fork(): allocates()
def wait_for(what):
    while not os.path.exists(f"{os.path.dirname(__file__)}/{what}"): time.sleep(0.01)
if sys.argv[1:] == ["exec"]:
    def in_exec(): allocates()
    wait_for(f"probed-{os.getpid()}")
    wait_for("found")
    in_exec()
    sys.exit()
print("{}", flush=True)
sys.stdin.readline()
child = os.fork()
if child == 0:
    wait_for(f"probed-{os.getpid()}")
    in_fork()
    os._exit(0)
os.waitpid(child, 0)
subprocess.check_call([sys.executable, __file__, "exec"])
for _ in range(20): os.spawnv(os.P_WAIT, "/bin/true", ["true"])
"""


def compile_program(output: Path, *flags: str, target: str = GLIBC) -> Path:
    return compile_with_zig(output, "-O1", "-DPROGRAM", *flags, TARGETS / "allocates.c", target=target)


@contextmanager
def running(*command: object) -> Iterator[Target]:
    target = Target([str(part) for part in command], target_env())
    try:
        yield target
    finally:
        target.end()


def libc_of(pid: int) -> str:
    return next(each.path for each in Process(pid).maps() if Path(each.path).name.startswith("libc"))


def first_byte_of_malloc(pid: int) -> bytes:
    """As it is in the process now."""
    path = libc_of(pid)
    first = next(each for each in Process(pid).maps() if each.path == path)
    with ElfFile(path) as file, Path(f"/proc/{pid}/mem").open("rb") as memory:
        memory.seek(first.start + file.symbols(("malloc",))["malloc"])
        return memory.read(1)


@root_only
def test_weft_is_killed(tmp_path: Path) -> None:
    """GIVEN a program with probes in its libc WHEN weft is killed THEN it runs on, and its code is as it was."""
    with running(sys.executable, "-c", CHURN) as target:
        before = first_byte_of_malloc(target.pid)
        assert before != BREAKPOINT
        with running_weft("record", "-p", target.pid, "--mode", "alloc", "-o", tmp_path / "x.weft") as weft:
            wait_until(lambda: first_byte_of_malloc(target.pid) == BREAKPOINT or weft.poll() is not None, "a probe")
            wait_until(lambda: (tmp_path / "x.weft").exists(), "a capture")
            weft.kill()
            weft.wait()
        wait_until(lambda: first_byte_of_malloc(target.pid) == before, "the probes are gone")
        first = target.next_line()["count"]
        assert target.next_line()["count"] > first
        assert target.process.poll() is None


@root_only
def test_probes_are_gone_when_the_recording_ends(tmp_path: Path) -> None:
    """GIVEN a recording that has ended in order THEN the code of the program is as it was before."""
    with running(sys.executable, "-c", CHURN) as target:
        before = first_byte_of_malloc(target.pid)
        record_process(target.pid, tmp_path / "x.weft", Options(duration_s=0.5, mode=Mode.ALLOC))
        assert first_byte_of_malloc(target.pid) == before


@root_only
def test_libc_is_deleted(tmp_path: Path) -> None:
    """GIVEN a program whose libc has been deleted, and another one put in its place THEN its calls are seen."""
    with running(compile_program(tmp_path / "first")) as target:
        libc = libc_of(target.pid)
        loader = next(each.path for each in Process(target.pid).maps() if Path(each.path).name.startswith("ld-"))
    copy = Path(shutil.copy(libc, tmp_path / "libc.so.6"))
    with running(loader, "--library-path", tmp_path, tmp_path / "first") as target:
        copy.unlink()
        shutil.copy(loader, copy)
        path = tmp_path / "x.weft"
        options = Options(duration_s=LIMIT_S, mode=Mode.ALLOC, subprocesses=True)
        record_process(target.pid, path, options, begins(target))
        with Capture(path) as capture:
            assert capture.account()["allocation_calls"] == 7220


def begins(target: Target) -> Callable[[object], None]:
    """What lets the target begin, once the recording has begun."""
    begun: list[bool] = []

    def begin(_: object) -> None:
        if not begun:
            begun.append(True)
            assert target.process.stdin is not None
            target.process.stdin.write(b"\n")
            target.process.stdin.close()

    return begin


@root_only
@pytest.mark.parametrize("first_linked", [kernel._FIRST_WITH_LINKED_PROBES, (99, 0)], ids=["linked", "perf events"])
def test_children(first_linked: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a program that forks, and starts another one, and some that end at once WHEN all are followed THEN what the
    first two allocate is seen, and it is told that the others were not seen from their beginning on, or at all."""
    script = tmp_path / "family.py"
    script.write_text(FAMILY)
    path = tmp_path / "x.weft"
    monkeypatch.setattr(kernel, "_FIRST_WITH_LINKED_PROBES", first_linked)
    add, set_runtime = AllocatorProbes.add, Sampler.set_runtime

    def add_and_tell(probes: AllocatorProbes, pid: int) -> bool:
        is_new = add(probes, pid)
        if pid not in probes.problems:
            (tmp_path / f"probed-{pid}").touch()
        return is_new

    def set_runtime_and_tell(sampler: Sampler, process: int, runtime: Runtime | None) -> None:
        set_runtime(sampler, process, runtime)
        if runtime:  # of the program that is started: what is forked has that of its parent
            (tmp_path / "found").touch()

    monkeypatch.setattr(AllocatorProbes, "add", add_and_tell)
    monkeypatch.setattr(Sampler, "set_runtime", set_runtime_and_tell)
    with running(sys.executable, script) as target:
        options = Options(duration_s=LIMIT_S, mode=Mode.ALLOC, subprocesses=True)
        record_process(target.pid, path, options, begins(target))
    with Capture(path) as capture:
        profile = Profile.from_capture(capture)
        account = capture.account()
    found = {"in_fork": 0, "in_exec": 0}
    for total in profile.totals:
        names = {profile.frames[frame].function for frame in profile.stacks.path(total.stack)}
        for name in found.keys() & names:
            found[name] += total.weight_ns
    for name, bytes_ in found.items():
        # Each of 4 MiB is sampled with a chance of 0.9997, and of each thread less than 1,000 bytes are not told.
        assert abs(bytes_ - 50 * (4 << 20)) <= 3 * (4 << 20), name
    assert account["probes_late"] + account["probes_missed"] == 22
    assert 0 < account["probes_late_ns_max"] < account["recorded_ns"]


def test_ends_while_it_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a program that ends between a look at what it has mapped and the opening of its libc THEN it was missed."""
    program = subprocess.Popen(["/bin/sleep", "600"])
    wait_until(lambda: any("libc" in each.path for each in Process(program.pid).maps()), "a libc")

    def ends(*_: object) -> None:
        program.kill()
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)  # a zombie
        raise FileNotFoundError

    monkeypatch.setattr(allocator, "_open", ends)
    follower = AllocationFollower(AllocatorProbes(kernel.File(-1)))
    follower.see(Event(EventKind.PROCESS_START, time.monotonic_ns(), 2, 0, 1, program.pid, 0, b""))
    follower.look()
    program.wait()
    follower.see(Event(EventKind.PROCESS_END, time.monotonic_ns(), 2, 0, 0, program.pid, 0, b""))
    follower.look()
    assert follower.account == {"probes_late": 0, "probes_late_ns_max": 0, "probes_missed": 1}
    assert not follower.warnings


@root_only
def test_another_program_in_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a static program that a linker overwrites with another one, whose malloc lies elsewhere, WHEN that runs
    THEN probes are put where its own functions begin: within another instruction they would change what it does."""
    put: list[set[int]] = []

    def note(pid: int, path: str, cookies: dict[int, int], program: kernel.File) -> list[kernel.File]:
        put.append(set(cookies))
        return [kernel.File(-1)]

    monkeypatch.setattr(allocator, "open_probes", note)
    probes = AllocatorProbes(kernel.File(-1))
    builds = [compile_program(tmp_path / f"build-{flag}", "-static", flag, target=MUSL) for flag in ("-O0", "-O2")]
    path = tmp_path / "program"
    shutil.copy(builds[0], path)
    wanted = []
    for build in builds:
        with path.open("r+b") as file:
            file.write(build.read_bytes())
            file.truncate()
        with running(path) as target:
            probes.add(target.pid)
            probes.remove(target.pid)
        with ElfFile(str(build)) as file_of_build:
            wanted.append({entry.offset for entry in allocator.entries_of(file_of_build)})
    probes.close()
    assert put == wanted
    assert wanted[0] != wanted[1], "the builds do not differ"


@root_only
def test_no_symbols(tmp_path: Path) -> None:
    """GIVEN a program with a libc in it, and without symbols THEN one line says that it cannot be seen."""
    program = compile_program(tmp_path / "stripped", "-static", target=MUSL)
    subprocess.run(["strip", program], check=True)  # not -s, for which zig would make another C library
    with running(program) as target:
        run = run_weft("record", "-s", "-p", target.pid, "--mode", "alloc", "-o", tmp_path / "x.weft")
        assert "no libc, or one without symbols" in assert_one_line(run)


@root_only
def test_no_probes_in_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a kernel without probes of user code THEN the error says so, before anything is recorded."""
    monkeypatch.setattr(kernel, "_PROBES", tmp_path / "type")
    with running(sys.executable, "-c", CHURN) as target, pytest.raises(CollectorError, match="CONFIG_UPROBE_EVENTS"):
        record_process(target.pid, tmp_path / "x.weft", Options(duration_s=1, mode=Mode.ALLOC))


@root_only
def test_no_privilege(tmp_path: Path) -> None:
    """GIVEN an ordinary user THEN one line says what is needed."""
    with running(sys.executable, "-c", CHURN) as target:
        options = ["-p", target.pid, "--mode", "alloc", "-d", 1, "-o", "/tmp/weft-never.weft"]
        run = run_weft("record", *options, prefix=ordinary())
        assert "weft: " in assert_one_line(run)
        assert target.process.poll() is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--mode", "alloc", "--collector", "ptrace"], "needs collector bpf"),
        (["--mode", "alloc", "--collector", "peek"], "needs collector bpf"),
        (["--mode", "alloc", "-o", "x.gecko.json.gz"], "gecko shows times"),
        (["--mode", "alloc", "-o", "x.trace.json"], "chrometrace shows times"),
    ],
)
def test_what_does_not_go_together(options: list[str], says: str) -> None:
    """GIVEN options that mode alloc cannot do THEN one line says why, and nothing is recorded."""
    assert says in assert_one_line(run_weft("record", "-p", os.getpid(), *options))


@pytest.mark.parametrize("options", [["-p", "1", "-r", "99"], ["-a"]])
def test_wrong_usage(options: list[str]) -> None:
    """GIVEN a rate, or all of the machine THEN mode alloc is refused as wrong usage."""
    assert_one_line(run_weft("record", "--mode", "alloc", *options), status=2)
