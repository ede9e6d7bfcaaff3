"""The recorder of a live view: a process of its own, which ends when the view does, however that ends."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from weft.errors import CollectorError, WeftError, error_named
from weft.session import Options

_END_LIMIT_S: Final = 5.0  # until a recorder that was told to end is killed


class LiveRecorder:
    """Records a process into a capture at `path`, which is gone when this is closed.

    It runs in a session of its own, so that no key of the terminal reaches it, and ends when its stdin does: also when
    this process is killed. The target runs on.
    """

    def __init__(self, pid: int, options: Options) -> None:
        """Returns when samples are taken. TargetError, LayoutError, CollectorError, OutputError."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "weft.attached"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.path = Path(tempfile.mkdtemp(prefix="weft-top-")) / "recording.weft"
        try:
            self._ask({"pid": pid, "path": str(self.path), "scratch": True, "options": _told(options)})
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def is_running(self) -> bool:
        """Whether it records, or holds what it has recorded."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the recording, and remove the capture."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:  # the kernel lets go of its target
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        for file in self.path.parent.glob(f"{self.path.name}*"):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.parent.rmdir()

    def _ask(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended, which the next line tells
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise CollectorError(f"the recorder ended with status {self._process.wait()}")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise error_named(told["kind"], told["error"])
        if "ready" not in told:
            raise WeftError("the process ended before a sample was taken")


def _told(options: Options) -> dict[str, Any]:
    return {
        "rate_hz": options.rate_hz,
        "mode": options.mode.name,
        "collector": options.collector.value,
        "subprocesses": options.subprocesses,
        "native": options.native,
    }
