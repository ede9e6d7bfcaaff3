"""Target programs that tests run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

TARGETS = Path(__file__).resolve().parent / "targets"
START_LIMIT_S = 120  # a machine under load is slow; this only ends a target that will never be ready


class Target:
    """A running target program. `ready` is what it told in its first line, a JSON object."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.command = command
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by end)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=env,
            start_new_session=True,  # so that end() reaches the children of the target too
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()),  # not that of the tests, whatever it is
        )
        self.pid = self.process.pid  # of the Python process, as the host sees it
        self.ready = self.next_line()

    def next_line(self) -> dict[str, Any]:
        """The next line that the target writes, decoded; an error where it ends first or is silent for too long."""
        assert self.process.stdout is not None
        limit = threading.Timer(START_LIMIT_S, self._kill)
        limit.start()
        line = self.process.stdout.readline()
        limit.cancel()
        if not line:
            self.process.wait()
            raise AssertionError(f"the target ended with {self.process.returncode}: {self.errors()}")
        told = json.loads(line)
        assert isinstance(told, dict)
        return told

    def finish(self) -> int:
        """Close the target's stdin, which every target program takes as the sign to end; gives its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(START_LIMIT_S)

    def errors(self) -> str:
        """What the target wrote to stderr so far."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # the whole group has ended
            os.killpg(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the target and what it started, whatever it does; for teardown."""
        self._kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self._errors):
            assert file is not None
            file.close()


StartTarget = Callable[..., Target]
CompileLibrary = Callable[..., Path]


def target_env() -> dict[str, str]:
    """An environment for targets, with nothing of the one that the tests run in."""
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/tmp"}
