"""What watching costs: weft top on a program of several busy threads, in a terminal of 100 by 30.

    python -m benchmarks.top [--seconds 20] [--threads 8] [--collector auto] [--keys 3]

`keys` are pressed before: 3 is the flame graph. Tells what the view and its recorder each use of a core once it has
started, and what starting cost, which is importing, and reading symbols.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.programs import newest, running_worker

_START = 8.0  # seconds, until what is there at the beginning has been named


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--collector", default="auto")
    parser.add_argument("--keys", default="")
    options = parser.parse_args()
    interpreter = newest((3, 13))
    assert interpreter is not None, "there is no CPython 3.13"
    with running_worker(interpreter, options.threads, sorts=4) as target:
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        command = [sys.executable, "-m", "weft", "top", "--collector", options.collector, str(target.pid)]
        environment = {**os.environ, "TERM": "xterm-256color"}
        with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment) as top:
            threading.Thread(target=_read, args=(leader,), daemon=True).start()
            time.sleep(_START)
            os.write(leader, options.keys.encode())
            (recorder,) = (child for child in _children(top.pid) if b"weft.attached" in _command(child))
            before, started = [_cpu_s(top.pid), _cpu_s(recorder)], time.monotonic()
            time.sleep(options.seconds)
            after, passed = [_cpu_s(top.pid), _cpu_s(recorder)], time.monotonic() - started
            os.write(leader, b"q")
            status = top.wait(30)
    print(f"{options.threads} threads, {passed:.0f} s, {options.collector}: status {status}")
    for name, then, now in zip(("view", "recorder"), before, after, strict=True):
        print(f"{name:10} {100 * (now - then) / passed:5.2f} % of a core; {then:.2f} s of CPU to start")


def _read(leader: int) -> None:
    with suppress(OSError):
        while os.read(leader, 1 << 16):
            pass


def _children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _cpu_s(pid: int) -> float:
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


if __name__ == "__main__":
    main()
