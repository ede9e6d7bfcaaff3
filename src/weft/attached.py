"""The process that records the one that has started it: `python -m weft.attached`, for weft.record().

It reads one line of JSON from stdin, {"pid", "path", "options"}, once it may begin. It writes lines of JSON to stdout:
{"ready": true} when it takes samples, and in the end {"warnings": [...]} or {"error": "...", "kind": "..."}.
SIGINT ends the recording.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from weft.collect.choose import Collector
from weft.collect.sampler import Mode
from weft.errors import WeftError
from weft.session import Options, Progress, record_process


def main() -> None:
    """Record, as told on stdin."""
    line = sys.stdin.readline()
    if not line:  # whoever was to tell has gone
        return
    asked = json.loads(line)
    ready = False

    def tell_ready(_: Progress) -> None:
        nonlocal ready
        if not ready:
            ready = True
            _tell(ready=True)

    try:
        result = record_process(asked["pid"], Path(asked["path"]), _options(asked["options"]), tell_ready)
    except WeftError as error:
        _tell(error=str(error), kind=type(error).__name__)
        return
    failures = [f"process {pid}: {error}" for pid, error in result.failures.items()]
    _tell(warnings=[*failures, *result.warnings])


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
