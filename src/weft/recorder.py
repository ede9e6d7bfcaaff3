"""The process that records another for this one: starts weft.attached, and talks with it in lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import Any

from weft.errors import CollectorError, error_named


class RecorderProcess:
    """A running `python -m weft.attached`, in a session of its own: no key of the terminal reaches it."""

    def __init__(self, wanted_by: str, *, quiet: bool = False) -> None:
        """`wanted_by`: who has it record, as errors say it; `quiet`: what it writes to stderr is nobody's to see."""
        self._wanted_by = wanted_by
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "weft.attached"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
            start_new_session=True,
        )

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send what is to be recorded; returns its first answer, as told() does."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and told() says why
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        return self.told()

    def told(self) -> dict[str, Any]:
        """What it tells next. Raises the error that it tells of; CollectorError if it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise CollectorError(f"the recorder of {self._wanted_by} ended with status {self.process.wait()}")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise error_named(told["kind"], told["error"])
        return told
