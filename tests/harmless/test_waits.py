"""System calls that wait, in a target that does not make them again when they are interrupted.

A stop by ptrace ends epoll_wait(2), semop(2) and others with EINTR (signal(7)), which programs of Python 2.7, and C
code everywhere, take for an error. weft stops no thread that is blocked; but one can begin to wait as it is stopped.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from interpreters import Interpreter
from running import StartTarget
from weft_command import task_states, wait_until

from weft import Collector, Mode, Options, _native, record_process

KINDS = {"select", "epoll_wait", "read", "sem_timedwait", "nanosleep"}


@pytest.mark.parametrize("mode", [Mode.WALL, Mode.CPU, Mode.GIL])
def test_no_call_is_interrupted(
    interpreter: Interpreter, start_target: StartTarget, tmp_path: Path, mode: Mode
) -> None:
    """GIVEN threads that wait in every way beside one that computes WHEN they are recorded at 1 kHz THEN none fails."""
    target = start_target(interpreter, "waits.py", 3)
    told: dict[str, Any] = {}
    reader = threading.Thread(target=lambda: told.update(target.next_line()))
    reader.start()
    result = record_process(target.pid, tmp_path / "x.weft", Options(1000, None, mode, Collector.PTRACE))
    reader.join()
    assert (result.account["samples_taken"] > 0) == (mode is not Mode.GIL or not interpreter.free_threaded)
    assert told["waits"].keys() == KINDS
    assert all(told["waits"].values())
    assert told["interrupted"] == dict.fromkeys(KINDS, 0)


WAITER = """
import ctypes, errno, json, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
epoll = libc.epoll_create1(0)
event = ctypes.create_string_buffer(12)
handled = []
signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
print(json.dumps({"ready": True}), flush=True)
interrupted = 0
while libc.epoll_wait(epoll, event, 1, 3000) == -1 and ctypes.get_errno() == errno.EINTR:
    interrupted += 1
print(json.dumps({"interrupted": interrupted, "handled": len(handled)}), flush=True)
"""
STOPS = 100
SIGNALS = 5


def test_a_stop_that_comes_anyway() -> None:
    """GIVEN a thread that has just begun to wait when its stop comes WHEN no handler runs THEN the call goes on.

    epoll_wait is the worst of all: the kernel ends it with EINTR after any stop. Where a signal with a handler comes,
    it must end with EINTR all the same.
    """
    with subprocess.Popen([sys.executable, "-c", WAITER], stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout is not None
        target.stdout.readline()
        wait_until(lambda: task_states(target.pid)[target.pid][0] == "S", "it waits")
        for number in range(STOPS):
            stopped = _native.StoppedThread(target.pid, 10.0)
            assert stopped.result is _native.StopResult.STOPPED
            if number % (STOPS // SIGNALS) == 0:
                target.send_signal(signal.SIGUSR1)
            stopped.release()
            time.sleep(0.001)
        told = json.loads(target.stdout.readline())
    assert told == {"interrupted": SIGNALS, "handled": SIGNALS}
