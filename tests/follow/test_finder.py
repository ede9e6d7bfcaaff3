"""Programs that have Python in them, and begin it late or never, as perf and gdb do."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from running import TARGETS, target_env
from weft_command import wait_until
from zig import compile_with_zig

from weft.collect import finder as under_test
from weft.collect.finder import Finder
from weft.collect.sampler import Event, EventKind
from weft.cpython.locate import find_runtime

PROCESS = 7  # the sampler's own number
TURN_S = 0.005  # between looks, where a program may soon begin Python
MINUTE_S = 60


def test_python_that_begins_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN CPython mapped and not begun THEN it is looked at a second apart before long, and found once it begins."""
    ahead_s = 0.0
    clock = time.monotonic
    monkeypatch.setattr(under_test, "time", Mock(monotonic=lambda: clock() + ahead_s))
    looks = Mock(side_effect=find_runtime)
    monkeypatch.setattr(under_test, "find_runtime", looks)
    finder = Finder(Mock(), Mock(runtime_of=Mock(return_value=None)), told_of_code=True)

    library = compile_with_zig(tmp_path / "late.so", "-shared", "-fPIC", TARGETS / "begins_late.c")
    env = {**target_env(), "LD_PRELOAD": str(library)}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE) as late:
        try:
            wait_until(lambda: "late.so" in Path(f"/proc/{late.pid}/maps").read_text(), "its libraries are mapped")
            finder.see(Event(EventKind.PROCESS_START, 0, PROCESS, 0, 0, late.pid, 0, b""))
            assert finder.is_searching
            for _ in range(int(MINUTE_S / TURN_S)):
                finder.look()
                ahead_s += TURN_S
            assert not finder.found
            assert not finder.is_searching
            # It grows by a quarter from 5 ms, which takes some thirty looks, and is a second after that.
            assert MINUTE_S - 5 < looks.call_count < MINUTE_S + 40

            late.send_signal(signal.SIGUSR1)

            def is_found() -> bool:
                finder.look()
                return bool(finder.found)

            wait_until(is_found, "it is found")
            assert (finder.found[0].version.major, finder.found[0].version.minor) == sys.version_info[:2]
        finally:
            late.kill()
