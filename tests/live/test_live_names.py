"""Native functions have their names while the recording still runs, and in what is written of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from weft_command import wait_until

from weft.capture import Capture
from weft.collect.choose import Collector
from weft.live.model import Settings
from weft.live.recorder import LiveRecorder
from weft.live.watch import Watch
from weft.profile.tables import View
from weft.report.data import as_dict
from weft.sample import FrameKind
from weft.session import Options

SORTS = """
data = [float(i * 7919 % 100003) for i in range(20000)]
print(flush=True)
while True:
    sorted(data)
"""


@pytest.fixture
def sorting() -> Iterator[int]:
    """The PID of a program that sorts without end."""
    with subprocess.Popen([sys.executable, "-c", SORTS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_native_functions_are_named_while_it_runs(sorting: int, tmp_path: Path) -> None:
    """GIVEN a program that sorts THEN list's sort has its name, live, and in the capture that is written meanwhile."""
    with LiveRecorder(sorting, Options(rate_hz=200, collector=Collector.PTRACE)) as recorder:
        watch = Watch(recorder.path, Settings(since_start=True))

        def natives() -> set[str]:
            assert asyncio.run(watch.look())
            rows = watch.model.rows()
            return {row.frame.function for row in rows if row.frame.kind is FrameKind.NATIVE}

        wait_until(lambda: any("sort" in name for name in natives()), "functions have names")
        watch.write(tmp_path / "copy.weft")
        watch.close()
        scratch = recorder.path
    assert not scratch.parent.exists()
    with Capture(tmp_path / "copy.weft") as capture:
        written = {row["function"] for row in as_dict(capture, View())["functions"]}
    assert any("sort" in name for name in written - {"sorted"})


def test_a_view_loads_textual_and_no_other_verb_does() -> None:
    code = (
        "import sys, weft.cli.main, weft.cli.record, weft.cli.report, weft.cli.top, weft.live.watch;"
        "print('textual' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
