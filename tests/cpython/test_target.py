"""The process, its mappings and its namespaces."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from interpreters import all_interpreters
from running import StartTarget

from weft.cpython.locate import find_runtime
from weft.errors import MemoryReadError, NoSuchProcessError, PermissionDeniedError, TargetError, TargetExitedError
from weft.target import maps
from weft.target import process as process_module
from weft.target.maps import Mapping, modules, parse_maps
from weft.target.memory import ProcessMemory, read_cstring
from weft.target.process import Process

NOBODY = 65534
PR_SET_DUMPABLE = 4

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root")


def test_maps_with_hostile_names() -> None:
    """Newlines come as \\012, spaces and a real " (deleted)" as they are; lines of another form are left out."""
    text = (
        "00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/a b\n"
        "7f00-7f10 rw-p 00001000 00:01 2048                /memfd:x (deleted)\n"
        "8000-9000 r--p 00000000 08:02 7                   /tmp/new\\012line [heap]\n"
        "a000-b000 rw-p 00000000 00:00 0 \n"
        "b000-c000 rw-p 00000000 00:00 0                   [stack]\n"
        "not a mapping\n"
        "zz-yy r--p 0 0 0\n"
    )
    assert parse_maps(text) == [
        Mapping(0x400000, 0x452000, "r-xp", 0, "08:02", 173521, "/usr/bin/a b"),
        Mapping(0x7F00, 0x7F10, "rw-p", 0x1000, "00:01", 2048, "/memfd:x", deleted=True),
        Mapping(0x8000, 0x9000, "r--p", 0, "08:02", 7, "/tmp/new\nline [heap]"),
        Mapping(0xA000, 0xB000, "rw-p", 0, "00:00", 0, ""),
        Mapping(0xB000, 0xC000, "rw-p", 0, "00:00", 0, "[stack]"),
    ]
    assert [m.path for m in parse_maps(text) if m.is_file] == ["/usr/bin/a b", "/memfd:x", "/tmp/new\nline [heap]"]


def test_a_file_mapped_twice_is_two_modules() -> None:
    """As dlmopen() does: offset 0 comes again, and with it another base."""
    line = "{:x}-{:x} r--p {:08x} 08:02 9 /lib/x.so\n"
    starts = [(0x1000, 0), (0x2000, 0x1000), (0x5000, 0), (0x6000, 0x1000)]
    mappings = parse_maps("".join(line.format(start, start + 0x1000, offset) for start, offset in starts))
    assert [[m.start for m in module.mappings] for module in modules(mappings)] == [[0x1000, 0x2000], [0x5000, 0x6000]]


def test_memory_reads_whole_or_not_at_all() -> None:
    """A read that runs into unmapped memory, addresses that no process has, and a string that ends with its page."""
    memory = ProcessMemory(os.getpid())
    text = ctypes.create_string_buffer(b"warp\0weft")
    address = ctypes.addressof(text)
    assert memory.read(address, 9) == b"warp\0weft"
    assert read_cstring(memory, address) == b"warp"
    assert read_cstring(memory, address, 2) == b"wa"
    end = next(m.end for m in Process(os.getpid()).maps() if m.path == "[stack]")
    for start, size in (0, 8), (end - 4, 8), (1 << 63, 8), (-8, 8), (1 << 70, 8):
        with pytest.raises(MemoryReadError):
            memory.read(start, size)
    memory.close()


def test_no_such_process() -> None:
    beyond = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    with pytest.raises(NoSuchProcessError, match=f"no process has the PID {beyond}"):
        Process(beyond)


def test_what_a_process_makes_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN arguments of 1.5 MB, or more mappings than are read THEN what lies at their beginning is there, whole."""
    long = "x" * 100_000
    program = [sys.executable, "-c", "print(flush=True); input()", *[long] * 15]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
        assert target.stdout
        target.stdout.readline()
        process = Process(target.pid)
        command = process.command
        assert command[:4] == program[:4]
        assert (1 << 20) - 100 < sum(map(len, command)) <= 1 << 20
        all_of_them = process.maps()
        monkeypatch.setattr(maps, "_MOST_BYTES", 2000)
        some = process.maps()
        target.communicate(b"\n")
    assert 5 < len(some) < len(all_of_them)
    assert some == all_of_them[: len(some)]


def test_what_we_lack_says_nothing_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no file descriptor left for its mappings THEN that is the error: it has not ended."""

    def no_file_left(_: int) -> list[Mapping]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(process_module, "read_maps", no_file_left)
    with pytest.raises(TargetError, match="cannot be read now: Too many open files") as raised:
        Process(os.getpid()).maps()
    assert type(raised.value) is TargetError


def test_a_process_that_ended() -> None:
    """Its PID may be another's by now: the start time tells. Reading it says that it has ended, whether or not its
    parent has taken notice."""
    with subprocess.Popen(["sleep", "100"]) as sleep:
        process = Process(sleep.pid)
        assert process.is_alive
        while not process.command:  # in the midst of its exec
            assert sleep.poll() is None
        assert process.command == ["sleep", "100"]
        assert process.name == "sleep"
        assert process.parent == os.getpid()
        sleep.kill()
        os.waitid(os.P_PID, sleep.pid, os.WEXITED | os.WNOWAIT)
        assert not process.is_alive  # a zombie
        with pytest.raises(TargetExitedError):
            find_runtime(process)
    assert not process.is_alive
    with pytest.raises(TargetExitedError):
        process.maps()


def test_children_are_found_over_generations() -> None:
    """A child of a child, started by a thread that is not the main one: children belong to threads."""
    code = (
        "import subprocess, sys, threading\n"
        "def start():\n"
        '    code = \'import subprocess; subprocess.run(["sleep", "100"])\'\n'
        "    child = subprocess.Popen([sys.executable, '-c', code])\n"
        "    sys.stdin.read(); child.kill()\n"
        "t = threading.Thread(target=start); t.start(); t.join()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        process = Process(parent.pid)
        while len(process.children(recursive=True)) < 2 or Process(process.children(recursive=True)[1]).name != "sleep":
            assert parent.poll() is None
        child, grandchild = process.children(recursive=True)
        assert process.children() == [child]
        assert Process(grandchild).parent == child
        os.kill(grandchild, 9)
        parent.communicate()


def as_nobody(action: Callable[[], object]) -> str:
    """Run something as another user, in a child; gives the name and the text of the error."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            action()
            said = "nothing was refused"
        except BaseException as error:  # nothing of this child may reach pytest
            said = f"{type(error).__name__}: {error}"
        os.write(theirs, said.encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@needs_root
def test_another_users_process_is_refused() -> None:
    with subprocess.Popen(["sleep", "100"]) as sleep:
        said = as_nobody(lambda: find_runtime(sleep.pid))
        sleep.kill()
    assert said.startswith(
        f"{PermissionDeniedError.__name__}: process {sleep.pid} is not ours to read: it runs as another"
    )
    assert "\n" not in said


@needs_root
@pytest.mark.parametrize("dumpable", [1, 0])
def test_an_ordinary_users_own_process(dumpable: int) -> None:
    """It can be read without any privilege, unless it has told the kernel to keep its memory private."""
    code = f"import ctypes, sys; ctypes.CDLL(None).prctl({PR_SET_DUMPABLE}, {dumpable})\n"
    code += "print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    ) as target:
        assert target.stdout
        assert target.stdout.readline() == b"\n"
        said = as_nobody(lambda: find_runtime(target.pid))
        target.communicate()
    if dumpable and not Path("/proc/sys/kernel/yama").exists():
        assert said == "nothing was refused"
    else:
        assert "PermissionDeniedError" in said
        assert "PR_SET_DUMPABLE" in said or "ptrace_scope" in said


@pytest.fixture
def other_namespaces() -> Iterator[Process]:
    """The newest Python, as PID 1 of namespaces of its own: mount, PID and user."""
    newest = next(i for i in reversed(all_interpreters()) if i.chroot is None)
    code = "import sys, threading, time; threading.Thread(target=time.sleep, args=(1000,), daemon=True).start();"
    code += "print(flush=True); sys.stdin.read()"
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        *newest.command,
    ]
    with subprocess.Popen([*command, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as unshare:
        assert unshare.stdout
        if unshare.stdout.readline() != b"\n":
            pytest.skip("no namespaces can be made here")
        yield Process(Process(unshare.pid).children()[0])
        unshare.communicate()


def test_a_target_in_other_namespaces(other_namespaces: Process) -> None:
    """Its ids are 1 and a few more there, and others here; the layout's proof compares CPython's native thread ids
    with those of its own namespace."""
    ids = other_namespaces.namespace_ids()
    assert ids[other_namespaces.pid] == 1
    assert len(ids) == 2
    assert set(ids) == {thread.tid for thread in other_namespaces.threads()}
    assert set(ids).isdisjoint(ids.values())
    assert find_runtime(other_namespaces).version >= (3, 11)


def test_a_chrooted_target_has_files(start_target: StartTarget) -> None:
    """/proc/PID/maps names a chrooted program's files as we see them, not as it does."""
    debian = next((i for i in all_interpreters() if i.chroot is not None and i.version >= (3, 13)), None)
    if debian is None:
        pytest.skip("no Debian chroot")
    runtime = find_runtime(start_target(debian, "blocked.py").pid)
    assert runtime.module == str(debian.executable)
