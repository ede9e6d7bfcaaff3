"""What tests of collector bpf share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

BUSY = "import time\nprint('ready', flush=True)\nend = time.time() + 100\nwhile time.time() < end: sum(range(1000))"


@pytest.fixture
def busy(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A busy Python process, run by the command that the test's parameter gives, or by root."""
    command = [*getattr(request, "param", []), sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        assert process.poll() is None, "it has survived"
        process.kill()
