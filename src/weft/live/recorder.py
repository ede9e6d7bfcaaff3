"""The recorder of a live view: a process of its own, which ends when the view does, however that ends."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from weft.errors import WeftError
from weft.recorder import RecorderProcess
from weft.scratch import new_folder
from weft.session import Options

_END_LIMIT_S: Final = 5.0  # until a recorder that was told to end is killed


class LiveRecorder:
    """Records a process into a capture at `path`, which is gone when this is closed.

    It runs in a session of its own, so that no key of the terminal reaches it, and ends when its stdin does: also when
    this process is killed. The target runs on.
    """

    def __init__(self, pid: int, options: Options) -> None:
        """Returns when samples are taken. TargetError, LayoutError, CollectorError, OutputError."""
        self.path = new_folder() / "recording.weft"
        self._recorder = RecorderProcess("weft top", quiet=True)
        self._process = self._recorder.process
        self.pid = self._process.pid
        try:
            self._begin(pid, options)
        except BaseException:
            self.close()
            raise

    def _begin(self, pid: int, options: Options) -> None:
        told = self._recorder.ask({"pid": pid, "path": str(self.path), "scratch": True, "options": _told(options)})
        if "ready" not in told:
            raise WeftError("the process ended before a sample was taken")

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


def _told(options: Options) -> dict[str, Any]:
    return {
        "rate_hz": options.rate_hz,
        "mode": options.mode.name,
        "collector": options.collector.value,
        "subprocesses": options.subprocesses,
        "native": options.native,
    }
