"""weft dump of live processes: every stack, state and name as the target itself, or the kernel, says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dumps import dump, expected, newest, settle, shown, wait_until_blocked, weft
from interpreters import Interpreter
from running import StartTarget

from weft.dump import dump_process
from weft.errors import WeftError


def test_every_kind_of_frame(interpreter: Interpreter, start_target: StartTarget) -> None:
    """GIVEN a thread for each feature of the language that makes frames, all blocked in a read."""
    target = start_target(interpreter, "stops.py")
    settle(target)
    stacks = expected(target)
    told = dump(target.pid)
    assert shown(told, stacks) == stacks
    routes = {stack["tid"]: stack["route"] for stack in target.ready["stacks"] if not stack["interpreter"]}
    for thread in told["threads"]:
        route = routes[thread["tid"]]
        route = {"main": "MainThread", "around_subinterpreter": "subinterpreter"}.get(route, route)
        assert (thread["name"], thread["syscall"], thread["state"]) == (route, "read", "blocked")
        assert thread["proven"]
        assert not thread["holds_gil"]
        assert thread["loss"] is None


def test_deep_recursion(interpreter: Interpreter, start_target: StartTarget) -> None:
    """GIVEN a stack as deep as the walker promises to go."""
    target = start_target(interpreter, "stops.py", "--only", "recursion", "--depth", 100_000)
    settle(target)
    stacks = expected(target)
    assert shown(dump(target.pid), stacks) == stacks


def test_a_subinterpreter_is_told_apart(interpreter: Interpreter, start_target: StartTarget) -> None:
    """GIVEN a thread in which one interpreter has called another."""
    target = start_target(interpreter, "stops.py", "--only", "subinterpreter")
    inner = [stack for stack in target.ready["stacks"] if stack["interpreter"]]
    if not inner:
        pytest.skip("this build makes no subinterpreters")
    thread = next(thread for thread in dump(target.pid)["threads"] if thread["tid"] == inner[0]["tid"])
    interpreters = [frame["interpreter"] for frame in thread["frames"]]
    depth = len(inner[0]["frames"])
    assert interpreters == [1] * depth + [0] * (len(interpreters) - depth)
    assert "in interpreter 1:" in weft("dump", target.pid).stdout


SPIN = """
import json, os, sys, threading, time

def spin(n):
    while True:
        n += len(str(n))

def wait(lock):
    lock.acquire()

def start(name, target, *args):
    thread = threading.Thread(target=target, args=args, name=name)
    thread.daemon = True
    thread.start()

lock = threading.Lock()
lock.acquire()
for n in range(3):
    start("spin-%d" % n, spin, n)
start("waits", wait, lock)
print(json.dumps({"pid": os.getpid()}))
sys.stdout.flush()
os.read(0, 1)
os._exit(0)
"""


def test_threads_that_run(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN three threads that fight for the GIL, and one that waits for a lock, which is a futex too."""
    program = tmp_path / "spin_program.py"
    program.write_text(SPIN)
    target = start_target(interpreter, program)
    # Where the lock of 2.7 is cannot be told of a build without .symtab: its waiters look blocked.
    wanted = set() if interpreter.stripped and interpreter.version < (3, 7) else {"gil"}
    wanted = set() if interpreter.free_threaded else wanted | {"holds the GIL"}
    seen: set[str] = set()
    # The program tells of itself before the two block: until then they need the GIL, which three others hold.
    idle = [thread["tid"] for thread in dump(target.pid)["threads"] if thread["name"] in ("MainThread", "waits")]
    for _ in range(200):  # a waiter is woken often, and then runs
        wait_until_blocked(target.pid, idle)
        threads = {thread["name"]: thread for thread in dump(target.pid)["threads"]}
        assert set(threads) == {"MainThread", "waits", "spin-0", "spin-1", "spin-2"}
        assert all(thread["proven"] for thread in threads.values())
        assert threads["MainThread"]["state"] == threads["waits"]["state"] == "blocked"
        assert not threads["MainThread"]["holds_gil"]
        assert not threads["waits"]["holds_gil"]
        for thread in [thread for name, thread in threads.items() if name.startswith("spin")]:
            seen |= {thread["state"]} | ({"holds the GIL"} if thread["holds_gil"] else set())
            functions = [frame["function"].split(".")[-1] for frame in thread["frames"]]
            assert functions[0] == "spin"
            assert functions[-1] in ("_bootstrap", "__bootstrap")
            assert thread["state"] != "blocked" or thread["syscall"] == "futex"
        if seen >= wanted | {"running"}:
            break
    assert seen >= wanted | {"running"}


def test_the_target_goes_on(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a program that is dumped again and again, with its locals: it must not be left stopped or interrupted."""
    program = tmp_path / "counts_program.py"
    program.write_text(
        "import json, os, sys\nprint(json.dumps({'pid': os.getpid()}), flush=True)\n"
        "total = sum(i % 7 for i in range(10_000_000))\nprint(json.dumps({'total': total}), flush=True)\n"
        "os.read(0, 1)\n"
    )
    target = start_target(newest(), program)
    for _ in range(5):
        dump("--locals", target.pid)
    assert target.next_line() == {"total": sum(i % 7 for i in range(10_000_000))}
    assert target.finish() == 0


def test_a_stopped_process(start_target: StartTarget) -> None:
    """GIVEN a process under SIGSTOP, in the middle of running: its stack is true, and it stays stopped."""
    target = start_target(newest(), "storm.py", 1_000_000)
    os.kill(target.pid, signal.SIGSTOP)
    while _state(target.pid) != "T":
        time.sleep(0.01)
    told = dump(target.pid)["threads"][0]
    assert told["stopped"]
    assert told["proven"]
    assert told["frames"][-1]["function"] == "<module>"
    assert _state(target.pid) == "T"
    os.kill(target.pid, signal.SIGCONT)
    assert _state(target.pid) in "RS"


def test_under_a_debugger(start_target: StartTarget) -> None:
    """GIVEN a running process that another tracer holds, and lets run: it cannot be stopped, which must be said."""
    target = start_target(newest(), "storm.py", 1_000_000)
    command = [sys.executable, "-c", TRACER, str(target.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tracer:  # ends with its input
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == b"seized\n"
        told = dump(target.pid)
        assert not told["threads"][0]["proven"]
        assert f"process {tracer.pid} traces it" in told["warnings"][0]
        assert "not proven" in weft("dump", target.pid).stdout


TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(0x4206, int(sys.argv[1]), None, None) == 0  # PTRACE_SEIZE
print("seized", flush=True)
sys.stdin.read()
"""


def test_names_are_harmless(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a thread and a function file whose names hold an escape sequence and a line end."""
    program = tmp_path / "evil_program.py"
    program.write_text(
        "import json, os, threading\n"
        "code = compile('def f(v):\\n    os.read(0, 1)\\nf([chr(27)])', '/x\\x1b[2J\\n.py', 'exec')\n"
        "thread = threading.Thread(target=exec, args=(code, {'os': os}), name='\\x1b]0;evil\\x07\\n')\n"
        "thread.start()\nprint(json.dumps({'pid': os.getpid()}), flush=True)\nthread.join()\n"
    )
    target = start_target(newest(), program)
    text = weft("dump", "--locals", target.pid).stdout
    assert "\x1b" not in text
    assert "\x07" not in text
    assert '"\\x1b]0;evil\\x07\\x0a"' in text
    assert "f (/x\\x1b[2J\\x0a.py:2)" in text
    assert "v = ['\\x1b']" in text


def test_text(start_target: StartTarget) -> None:
    """The text has a line for each thread and each frame."""
    target = start_target(newest(), "stops.py", "--only", "recursion")
    settle(target)
    text = weft("dump", target.pid).stdout
    assert text.startswith(f"process {target.pid} (")
    assert re.search(rf'^Thread {target.pid} "MainThread" \(python.*, 0x[0-9a-f]+\): blocked in read$', text, re.M)
    assert len(re.findall(r"^    recursion \(/.*/stops\.py:\d+\)$", text, re.M)) == 21


def test_errors(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN what is no Python process: one line on stderr, exit status 1, nothing on stdout."""
    sleep = subprocess.Popen(["sleep", "60"])
    text = tmp_path / "text"
    text.write_text("no core")
    try:
        for wrong, said in [
            (sleep.pid, rf"weft: process {sleep.pid} \(sleep\) runs no Python that weft knows"),
            (2**22 + 1, r"weft: no process has the PID 4194305"),
            ("nowhere", r"weft: 'nowhere' is neither a PID nor a file"),
            (text, r"weft: .*/text is no core file"),
        ]:
            run = weft("dump", wrong)
            assert re.fullmatch(said + r"\n", run.stderr), run.stderr
            assert (run.returncode, run.stdout) == (1, "")
    finally:
        sleep.kill()
        sleep.wait()


INIT = """
import json, os, sys

class Outer(object):
    def __init__(self, depth):
        if depth:
            self.inner = Outer(depth - 1)
        else:
            sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\\n")
            sys.stdout.flush()
            os.read(0, 1)

Outer(5)
"""


def test_only_inlined_inits(interpreter: Interpreter, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN one thread, blocked in an __init__: 3.13 has frames there that are no function, and the proof needs one."""
    program = tmp_path / "init_program.py"
    program.write_text(INIT)
    target = start_target(interpreter, program)
    (thread,) = dump(target.pid)["threads"]
    functions = [frame["function"].split(".")[-1] for frame in thread["frames"]]
    assert functions == ["__init__"] * 6 + ["<module>"]
    assert thread["loss"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_users_process(start_target: StartTarget) -> None:
    """GIVEN root's process and an ordinary user: one line that says why, and what to do."""
    target = start_target(newest(), "blocked.py")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            dump_process(target.pid)
        except WeftError as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    assert said.startswith(f"PermissionDeniedError: process {target.pid} is not ours to read: it runs as another user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces everywhere")
def test_another_pid_namespace() -> None:
    """GIVEN a process that is number 1 of its own PID namespace."""
    program = "import threading, time; print(1, flush=True); time.sleep(60)"
    command = ["unshare", "--pid", "--fork", "--kill-child", *newest().command, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            pytest.skip("no PID namespaces here")
        inner = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        (thread,) = dump(inner)["threads"]
        assert (thread["tid"], thread["namespace_tid"], thread["name"]) == (inner, 1, "MainThread")
        assert [frame["function"] for frame in thread["frames"]] == ["<module>"]
        assert f'Thread {inner} (1 in its PID namespace) "MainThread"' in weft("dump", inner).stdout
    finally:
        process.kill()
        process.communicate()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
