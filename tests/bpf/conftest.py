"""What tests of collector bpf share."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from zig import compile_with_zig

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


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ctypes.CDLL]:
    """Of a C file of this folder, the library that it is on the host."""
    here = Path(__file__).resolve().parent
    root = here.parent.parent

    def compiled(name: str) -> ctypes.CDLL:
        library = tmp_path_factory.mktemp("on_host") / "library.so"
        include = ["-I", root / "native", "-I", root / "bpf"]
        compile_with_zig(library, "-O1", "-shared", "-fPIC", *include, here / name)
        return ctypes.CDLL(str(library))

    return compiled
