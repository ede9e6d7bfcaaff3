"""Launching a command, held back before its first instruction until weft has taken hold of it."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from weft.errors import TargetError, TargetExitedError


class LaunchError(TargetError):
    """The command cannot be run. `exit_status` is what a shell would exit with."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class Launched:
    """A child that will run a command. It keeps our stdin, stdout and stderr, and our process group: Ctrl-C reaches it.

    It waits for release() before exec(2), so that whoever traces it sees its first instruction. Made while this process
    has one thread. LaunchError if there is no such command.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        from shutil import which  # where nothing is launched, it is not loaded

        # A mistyped command is told before anything is made for it, or an old capture replaced.
        if which(self._command[0]) is None:
            is_there = "/" in self._command[0] and Path(self._command[0]).exists()
            raise self._error(errno.EACCES if is_there else errno.ENOENT)
        release_read, self._release = os.pipe()
        self._failure, failure_write = os.pipe()  # closed by exec; else it tells why there was none
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._release)
            os.close(self._failure)
            _become(self._command, release_read, failure_write)
        os.close(release_read)
        os.close(failure_write)

    def release(self) -> None:
        """Let it run. LaunchError if the command cannot be."""
        os.write(self._release, b"!")
        os.close(self._release)
        with os.fdopen(self._failure, "rb") as failure:
            told = failure.read()
        if told:
            raise self._error(int(told))

    def wait(self) -> int:
        """Wait for its end and return its status as of wait(2). TargetExitedError if that was lost."""
        try:
            return os.waitpid(self.pid, 0)[1]
        except ChildProcessError:
            raise TargetExitedError(f"{self._command[0]!r} ended, and nobody saw how") from None

    def _error(self, code: int) -> LaunchError:
        # As shells do: 127 not found, 126 found and not executable.
        status = 127 if code == errno.ENOENT else 126
        return LaunchError(f"cannot run {self._command[0]!r}: {os.strerror(code)}", status)


def _become(command: list[str], release: int, failure: int) -> None:
    """Wait for the release, then run the command. Never returns."""
    try:
        if os.read(release, 1) != b"!":
            os._exit(0)  # weft has ended before it let us run
        # What Python ignores, the command must not find ignored.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(failure, str(error.errno or 0).encode())
    finally:
        os._exit(127)


def shell_status(status: int) -> int:
    """Return what weft exits with for a status as of wait(2): the exit status, or 128 and the signal's number."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
