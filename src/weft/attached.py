"""The process that records for another that has started it: `python -m weft.attached`, for weft.record() and weft top.

It reads one line of JSON from stdin, {"pid", "path", "options", "scratch"}, once it may begin. It writes lines of JSON
to stdout: {"ready": true} when it takes samples, and in the end {"warnings": [...]} or {"error": "...", "kind": "..."}.
SIGINT ends the recording. A scratch capture is of use to the one that has started it, and to nobody else: at the end of
stdin the recording ends at once, and the capture goes with its folder.
"""

from __future__ import annotations

import json
import select
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from weft.capture.file import SIDE_FILES
from weft.collect.choose import Collector
from weft.collect.sampler import Mode
from weft.errors import WeftError
from weft.session import Options, Progress, record_process


class _Abandoned(Exception):  # noqa: N818 - no mistake of anybody's
    """Whoever wanted the recording has gone."""


def main() -> None:
    """Record, as told on stdin."""
    line = sys.stdin.readline()
    if not line:  # whoever was to tell has gone
        return
    asked = json.loads(line)
    path, scratch = Path(asked["path"]), asked.get("scratch", False)
    ready = False

    def tell_ready(_: Progress) -> None:
        nonlocal ready
        if not ready:
            ready = True
            _tell(ready=True)
        if scratch and _has_ended(sys.stdin):
            raise _Abandoned("whoever watched the recording has gone")

    try:
        result = record_process(asked["pid"], path, _options(asked["options"]), tell_ready)
        if scratch:
            _tell(warnings=[])
            sys.stdin.read()  # it is looked at for as long as there is somebody
            _remove(path)
            return
    except _Abandoned:
        _remove(path)
        return
    except WeftError as error:
        _tell(error=str(error), kind=type(error).__name__)
        return
    _tell(warnings=[*result.told_failures(), *result.warnings])


def _has_ended(stream: TextIO) -> bool:
    """Whether a stream that nobody writes to has been closed at its other end."""
    return bool(select.select([stream], [], [], 0)[0])


def _remove(path: Path) -> None:
    for suffix in ("", *SIDE_FILES):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()


def _options(told: dict[str, Any]) -> Options:
    return Options(
        rate_hz=told["rate_hz"],
        mode=Mode[told["mode"]],
        collector=Collector(told["collector"]),
        subprocesses=told["subprocesses"],
        native=told["native"],
    )


def _tell(**message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
