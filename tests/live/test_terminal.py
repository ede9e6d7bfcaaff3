"""weft top as a user has it: in a terminal, on a process that runs; and where it has to refuse."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from live.made import woven_capture
from privileges import ordinary
from running import TARGETS, Target, target_env
from weft_command import LIMIT_S, WEFT, assert_one_line, is_let_go, run_weft, wait_until

_STEERS = re.compile(rb"\x1b\[[0-9;?<>=$ ]*[@-~]|\x1b[()][A-Z0-9]|\x1b[P\]_].*?(?:\x1b\\|\x07)|\x1b.", re.DOTALL)


class Terminal:
    """weft in a terminal of its own, and what it has written there."""

    def __init__(self, *arguments: object, folder: Path, prefix: tuple[str, ...] = ()) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        # The capture that it records is made in this folder: what is left of it is seen there.
        environment = {**os.environ, "TERM": "xterm-256color", "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            [*prefix, *WEFT, "top", *map(str, arguments)],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=environment,
            start_new_session=True,
        )
        os.close(follower)
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # EIO: nobody has it open any more
            while data := os.read(self._leader, 1 << 16):
                self._written += data

    @property
    def text(self) -> str:
        """All that was written, without what steers the terminal."""
        return _STEERS.sub(b" ", self._written).decode(errors="replace")

    def shows(self, words: str) -> None:
        """Wait until it has shown these words."""
        wait_until(lambda: words in self.text or self.process.poll() is not None, f"it shows {words!r}")
        assert words in self.text, self.text

    def press(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(LIMIT_S)
        os.close(self._leader)


@pytest.fixture
def target() -> Iterator[Target]:
    """A program with two threads that run, and four that are blocked."""
    started = Target([sys.executable, str(TARGETS / "threads.py"), "6"], target_env())
    yield started
    started.end()


def recorders(folder: Path) -> list[int]:
    """The recorders of weft top whose captures are in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_recorder = b"weft.attached" in (process / "cmdline").read_bytes()
            if is_recorder and f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


@pytest.mark.parametrize("collector", ["auto", "ptrace"])
def test_it_shows_a_process_and_leaves_it_alone(target: Target, tmp_path: Path, collector: str) -> None:
    """GIVEN a busy function THEN it is shown; q ends the view and the recorder, and nothing else."""
    terminal = Terminal("--collector", collector, target.pid, folder=tmp_path)
    try:
        terminal.shows("step")
        terminal.shows("threads.py")
        assert len(recorders(tmp_path)) == 1
        terminal.press("4")
        terminal.shows("MainThread")
        terminal.press("q")
        assert terminal.process.wait(LIMIT_S) == 0, terminal.text
        assert b"\x1b[?1049l" in terminal._written  # the terminal is as it was before
    finally:
        terminal.end()
    assert recorders(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    assert is_let_go(target.pid)
    assert target.finish() == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_recorder_ends_with_the_view(target: Target, tmp_path: Path, number: signal.Signals) -> None:
    """GIVEN a view that is killed THEN its recorder ends and removes the capture, and the target runs on."""
    terminal = Terminal("--collector", "ptrace", target.pid, folder=tmp_path)
    try:
        terminal.shows("step")
        assert len(recorders(tmp_path)) == 1
        terminal.process.send_signal(number)
        status = terminal.process.wait(LIMIT_S)
        assert status == (-9 if number == signal.SIGKILL else 0), terminal.text
    finally:
        terminal.end()
    wait_until(lambda: not recorders(tmp_path), "the recorder ends")
    wait_until(lambda: not list(tmp_path.iterdir()), "the capture is removed")
    assert is_let_go(target.pid)
    assert target.finish() == 0


def test_the_view_stays_when_the_target_ends(target: Target, tmp_path: Path) -> None:
    terminal = Terminal("--collector", "ptrace", target.pid, folder=tmp_path)
    try:
        terminal.shows("step")
        assert target.finish() == 0
        terminal.shows("ended")
        terminal.press("q")
        assert terminal.process.wait(LIMIT_S) == 0, terminal.text
    finally:
        terminal.end()
    assert list(tmp_path.iterdir()) == []


def test_a_capture_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    terminal = Terminal(woven_capture(tmp_path / "x.weft"), folder=folder)
    try:
        terminal.shows("Parser.parse")
        terminal.press("q")
        assert terminal.process.wait(LIMIT_S) == 0, terminal.text
    finally:
        terminal.end()
    assert recorders(folder) == []


def test_what_cannot_be_shown_is_told_in_one_line(tmp_path: Path) -> None:
    """GIVEN no such process, no Python, no capture, no file THEN one line says so, and the exit status is 1."""
    (tmp_path / "scratch").mkdir()
    notes = tmp_path / "notes.weft"
    notes.write_text("not a capture" * 100)
    gone = subprocess.Popen(["true"])
    gone.wait()
    with subprocess.Popen(["sleep", "1000"]) as other:
        cases = {gone.pid: "no process", other.pid: "Python", notes: "is no weft capture", "no.weft": "neither a PID"}
        try:
            for shown, words in cases.items():
                terminal = Terminal(shown, folder=tmp_path / "scratch")
                try:
                    assert terminal.process.wait(LIMIT_S) == 1
                    wait_until(lambda: "\n" in terminal.text, "it says why")  # noqa: B023
                finally:
                    terminal.end()
                (line,) = terminal.text.strip().splitlines()
                assert line.startswith("weft: ")
                assert words in line
        finally:
            other.kill()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_it_needs_a_terminal(tmp_path: Path) -> None:
    run = run_weft("top", woven_capture(tmp_path / "x.weft"))
    assert "needs a terminal" in assert_one_line(run)


@pytest.mark.skipif(os.geteuid() != 0, reason="the target has to be root's")
def test_a_process_that_may_not_be_read_is_refused(target: Target, tmp_path: Path) -> None:
    terminal = Terminal(target.pid, folder=tmp_path, prefix=tuple(ordinary()))
    try:
        assert terminal.process.wait(LIMIT_S) == 1
        wait_until(lambda: "\n" in terminal.text, "it says why")
    finally:
        terminal.end()
    (line,) = terminal.text.strip().splitlines()
    assert line.startswith("weft: ")
    assert "is not ours to read" in line
    assert list(tmp_path.iterdir()) == []
