"""What works here, what does not, and how to mend it. All is tried, on processes of our own: settings only explain.

`WARNING`: recording works, but not with everything. `NO`: it does not.
"""

from __future__ import annotations

import errno
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from weft import _native
from weft.collect.bpf.collector import KernelCollector
from weft.collect.bpf.kernel import kernel_release
from weft.collect.choose import check_bpf, tracer_of
from weft.cpython.check import NotReadyError
from weft.cpython.locate import find_runtime
from weft.errors import CollectorError, LayoutError, MemoryReadError, NotPythonError, TargetError
from weft.profile.units import duration
from weft.symbolize.kernel import tells_names
from weft.target.namespaces import is_other_namespace
from weft.target.process import Process

_OLDEST_KERNEL = (3, 4)  # PTRACE_SEIZE
_STOP_TIME = 1.0  # seconds; a child that sleeps stops at once
_FILES_A_THREAD = 4 + len(os.sched_getaffinity(0))  # that the sampler keeps open: of /proc, and a clock on each CPU
_ENOUGH_FILES = 1000 * _FILES_A_THREAD
_ROUNDS, _ALLOCATIONS, _SIZE = 5, 2_000, 600  # and bytes of each: too many for Python to have them from its own arenas
_CAP_SYS_PTRACE = 19  # linux/capability.h


class Verdict(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried: what was found and means; and what to do about it, "" if nothing is needed."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""


def check_machine() -> list[Check]:
    """Try what recording needs of this machine. Takes some milliseconds."""
    checks = [_kernel(), _own_python()]
    with _Sleeper() as child:
        checks += [_ptrace(child.pid), _memory(child.pid), _cpu_clock(child.pid), _kernel_frames(child.pid)]
    with _Sleeper(orphan=True) as stranger:
        checks.append(_attach(stranger.pid))
    return [*checks, _collector_bpf(), _allocations(), _schedstat(), _proc(), _open_files()]


def check_process(pid: int) -> list[Check]:
    """Try what recording, or dumping, one process needs."""
    try:
        process = Process(pid)
    except TargetError as error:
        return [Check("process", Verdict.NO, str(error), "look for it with `ps -e`; in a container its PID is another")]
    if not process.is_alive:
        return [Check("process", Verdict.NO, f"process {pid} has ended and waits for its parent (a zombie)")]
    checks = [Check("process", Verdict.OK, f"{process} is there")]
    access = _access(process)
    checks += [access, _tracer(pid), _namespaces(pid)]
    if access.verdict is Verdict.OK:
        checks += [_threads(process), _python(process)]
    return checks


def works(checks: list[Check]) -> bool:
    """Whether recording will work."""
    return all(check.verdict is not Verdict.NO for check in checks)


class _Sleeper:
    """A process of our own that waits until the block ends. An orphan is no descendant of ours (for Yama)."""

    def __init__(self, *, orphan: bool = False) -> None:
        wait, self._release = os.pipe()
        told, tell = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._release)
            try:
                if not orphan or os.fork() == 0:
                    os.write(tell, str(os.getpid()).encode())
                    os.read(wait, 1)
            finally:
                os._exit(0)
        os.close(wait)
        os.close(tell)
        if orphan:
            os.waitpid(self._child, 0)
        self.pid = int(os.read(told, 32))
        os.close(told)
        self._orphan = orphan

    def __enter__(self) -> _Sleeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._release)
        if not self._orphan:
            os.waitpid(self._child, 0)


def _stop(pid: int) -> _native.StopResult:
    held = _native.StoppedThread(pid, _STOP_TIME)
    held.release()
    return held.result


def _kernel() -> Check:
    name = os.uname()
    found = f"{name.sysname} {name.release} on {name.machine}"
    if name.machine != "x86_64":
        return Check("kernel", Verdict.NO, found, "weft reads processes of x86-64 only")
    if kernel_release() < _OLDEST_KERNEL:
        return Check("kernel", Verdict.NO, found, "weft needs Linux 3.4 or later")
    return Check("kernel", Verdict.OK, found)


def _own_python() -> Check:
    return Check("weft", Verdict.OK, f"runs on CPython {platform.python_version()} in {sys.prefix}")


def _ptrace(child: int) -> Check:
    result = _stop(child)
    if result is _native.StopResult.STOPPED:
        return Check("ptrace", Verdict.OK, "a child of ours was stopped: programs that weft launches can be recorded")
    advice = "weft record --collector peek does without, and says what that costs in truth"
    if _has_seccomp():
        advice = (
            "a seccomp filter forbids it: start the container with --cap-add SYS_PTRACE, or with a seccomp profile that"
            f" allows ptrace; {advice}"
        )
    return Check("ptrace", Verdict.NO, f"a child of ours could not be stopped ({result.name.lower()})", advice)


def _attach(stranger: int) -> Check:
    """Whether processes can be attached to that weft did not start."""
    result = _stop(stranger)
    if result is _native.StopResult.STOPPED:
        whose = "processes of any user" if _can_trace_all() else "processes of this user"
        return Check(
            "attach", Verdict.OK, f"a process that is no child of ours was stopped: weft can attach to {whose}"
        )
    why = Process(stranger).refused(PermissionError(errno.EPERM, "")).args[0].partition("to read: ")[2]
    return Check("attach", Verdict.WARNING, "only programs that weft launches can be recorded", why)


def _memory(child: int) -> Check:
    marker = b"read by weft doctor"
    try:
        # The child has a copy of our memory.
        found = marker in _native.ProcessMemory(child).read(id(marker), sys.getsizeof(marker))
    except MemoryReadError as error:
        advice = "a seccomp filter forbids process_vm_readv; allow it, or start the container with --cap-add SYS_PTRACE"
        return Check("memory", Verdict.NO, f"process_vm_readv does not work: {error}", advice if _has_seccomp() else "")
    if not found:
        return Check("memory", Verdict.NO, "process_vm_readv reads something else than is there")
    return Check("memory", Verdict.OK, "process_vm_readv reads the memory of a child")


def _cpu_clock(child: int) -> Check:
    name = "cpu clocks"
    code = _native.probe_cpu_clock(child, user_only=False)
    if not code:
        return Check(name, Verdict.OK, "perf_event_open works: threads are paced by their own CPU time")
    paranoid = _number(Path("/proc/sys/kernel/perf_event_paranoid"))
    if not _native.probe_cpu_clock(child, user_only=True):
        return Check(
            name,
            Verdict.WARNING,
            f"perf_event_open works in user mode only (perf_event_paranoid is {paranoid}): threads that are in the"
            " kernel are paced by the wall clock",
            "sudo sysctl kernel.perf_event_paranoid=1, or run weft as root",
        )
    found = f"perf_event_open is refused ({os.strerror(code)}): samples are paced by the wall clock, at more cost"
    if code in (errno.EPERM, errno.EACCES) and paranoid is not None and paranoid > 2:
        advice = f"perf_event_paranoid is {paranoid}: sudo sysctl kernel.perf_event_paranoid=1, or run weft as root"
    elif code in (errno.EPERM, errno.EACCES, errno.ENOSYS) and _has_seccomp():
        advice = "a seccomp filter forbids it, as Docker's does: start the container with --cap-add PERFMON"
    else:
        advice = "this kernel has no perf events"
    return Check(name, Verdict.WARNING, found, advice)


def _kernel_frames(child: int) -> Check:
    name = "kernel frames"
    lacking = []
    if _native.probe_cpu_clock(child, user_only=False):
        lacking.append("of running threads (perf_event_open is refused for it)")
    if _native.kernel_stack(child, child) is None:
        lacking.append("of blocked threads (/proc/PID/stack is for root)")
    if not tells_names():
        lacking.append("by their names (/proc/kallsyms; kernel.kptr_restrict)")
    if lacking:
        found = f"stacks end where threads enter the kernel: it does not show frames {', nor '.join(lacking)}"
        return Check(name, Verdict.WARNING, found, "run weft as root")
    return Check(name, Verdict.OK, "the kernel shows where threads are in it, running or blocked, with names")


def _collector_bpf() -> Check:
    try:
        check_bpf()
        KernelCollector(1).close()
    except CollectorError as error:
        advice = "run weft as root for it; --collector ptrace is taken where it cannot run"
        return Check("collector bpf", Verdict.WARNING, str(error), advice)
    return Check("collector bpf", Verdict.OK, "the kernel takes weft's program")


def _allocations() -> Check:
    name = "allocations"
    try:
        check_bpf()
        collector = KernelCollector(1, switches=False, allocations=True)
        try:
            alone_ns = _allocate()
            probes = collector.probes
            assert probes is not None  # as asked for
            probes.add(os.getpid())
            probed_ns = _allocate()
            seen = collector.allocations["allocation_calls"]
            problem = probes.problems.get(os.getpid(), "the kernel does not run them")
        finally:
            collector.close()
    except CollectorError as error:
        return Check(name, Verdict.WARNING, f"--mode alloc does not work: {error}", "run weft as root for it")
    if seen < _ALLOCATIONS:
        return Check(
            name, Verdict.WARNING, f"--mode alloc does not see weft's own: {problem}", "run weft as root for it"
        )
    longer = duration(max(0, probed_ns - alone_ns))
    return Check(name, Verdict.OK, f"the kernel can probe libc; each call of malloc then takes {longer} longer")


def _allocate() -> int:
    """Ask libc for memory again and again, and return how long one time took, in ns: the least of several measures."""
    took = []
    for _ in range(_ROUNDS):
        start_ns = time.monotonic_ns()
        for _ in range(_ALLOCATIONS):
            bytearray(_SIZE)
        took.append((time.monotonic_ns() - start_ns) // _ALLOCATIONS)
    return min(took)


def _schedstat() -> Check:
    name = "schedstat"
    before = _switches()
    time.sleep(0.001)
    after = _switches()
    if before is None or after is None or before == after:
        return Check(
            name,
            Verdict.WARNING,
            "the kernel does not count the CPU time of threads in schedstat: weights and idle threads are less exact",
            "a kernel with CONFIG_SCHED_INFO counts it",
        )
    return Check(name, Verdict.OK, "the kernel counts the CPU time and switches of each thread")


def _switches() -> int | None:
    try:
        return int(Path("/proc/thread-self/schedstat").read_bytes().split()[2])
    except (OSError, IndexError, ValueError):
        return None


def _proc() -> Check:
    if Path("/proc/1/stat").exists():
        return Check("/proc", Verdict.OK, "shows the processes of all users")
    return Check(
        "/proc",
        Verdict.WARNING,
        "is mounted with hidepid: only processes of this user are there",
        "run weft as root, or `sudo mount -o remount,hidepid=0 /proc`",
    )


def _open_files() -> Check:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= _ENOUGH_FILES:
        return Check("open files", Verdict.OK, f"at most {'any number' if hard == resource.RLIM_INFINITY else hard}")
    found = f"at most {hard}: enough to record {hard // _FILES_A_THREAD} threads"
    return Check("open files", Verdict.WARNING, found, "raise the limit: ulimit -Hn 65536, as root")


# One process


def _access(process: Process) -> Check:
    try:
        mapping = next((m for m in process.maps() if m.readable), None)
        if mapping is None:
            return Check("access", Verdict.NO, "it has no memory: it is a kernel thread, or about to end")
        process.memory.read(mapping.start, 8)
        _native.ProcessMemory(process.pid).read(mapping.start, 8)
    except (TargetError, MemoryReadError) as error:
        return Check("access", Verdict.NO, str(error))
    return Check("access", Verdict.OK, "its memory can be read")


def _tracer(pid: int) -> Check:
    tracer = tracer_of(pid)
    if not tracer:
        return Check("tracer", Verdict.OK, "nobody traces it")
    return Check(
        "tracer",
        Verdict.NO,
        f"process {tracer} traces it (gdb, strace or another profiler), and there can be only one",
        "end that, or use --collector peek",
    )


def _namespaces(pid: int) -> Check:
    words = {"mnt": "mount", "pid": "PID", "user": "user"}
    other = [word for kind, word in words.items() if is_other_namespace(pid, kind)]
    if not other:
        return Check("namespaces", Verdict.OK, "the same as ours")
    found = f"it has its own {' and '.join(other)} namespace: files are read through /proc/{pid}/root"
    return Check("namespaces", Verdict.OK, found)


def _threads(process: Process) -> Check:
    count = len(process.threads())
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    found = f"it has {count} thread{'s' if count != 1 else ''}"
    if files != resource.RLIM_INFINITY and count * _FILES_A_THREAD > files:
        return Check("threads", Verdict.WARNING, f"{found}, more than the limit of {files} open files allows")
    return Check("threads", Verdict.OK, found)


def _python(process: Process) -> Check:
    try:
        runtime = find_runtime(process)
    except NotReadyError as error:
        return Check("python", Verdict.WARNING, f"it runs no Python at this moment: {error}", "try again")
    except NotPythonError as error:
        advice = "weft record -s records its subprocesses, of which one may be Python" if process.children() else ""
        return Check("python", Verdict.NO, str(error), advice)
    except (LayoutError, TargetError) as error:
        return Check("python", Verdict.NO, str(error))
    return Check("python", Verdict.OK, f"{runtime} in {runtime.module}: the layout is proven")


def _has_seccomp() -> bool:
    """Whether a seccomp filter, as of a container, lies on us (proc(5), Seccomp: 2)."""
    return any(line.split() == [b"Seccomp:", b"2"] for line in _own_status())


def _can_trace_all() -> bool:
    words = next((line.split() for line in _own_status() if line.startswith(b"CapEff:")), [b"", b"0"])
    return bool(int(words[1], 16) >> _CAP_SYS_PTRACE & 1)


def _own_status() -> Iterator[bytes]:
    yield from Path("/proc/self/status").read_bytes().splitlines()


def _number(path: Path) -> int | None:
    try:
        return int(path.read_bytes())
    except (OSError, ValueError):
        return None
