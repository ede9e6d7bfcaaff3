"""Native stacks through libraries as people use them, frame by frame as gdb sees them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from interpreters import Interpreter
from native_stacks import gdb_callers, gdb_stack, own_stack, wait_until_it_reads
from running import TARGETS, StartTarget, Target
from weft_command import cpu_ns, run_weft, wait_until

POINTS = 2  # of each computation
COMPUTED_NS = 30_000_000  # between them


@pytest.fixture(scope="session")
def callbacks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library made of callbacks.cpp by g++, without debug information."""
    library = tmp_path_factory.mktemp("callbacks") / "libcallbacks.so"
    source = TARGETS / "callbacks.cpp"
    subprocess.run(["g++", "-std=c++20", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


@pytest.fixture
def library(interpreter: Interpreter, target_folder: Callable[[Interpreter], Path], callbacks: Path) -> str:
    """Where the interpreter sees that library."""
    if interpreter.chroot is None:
        return str(callbacks)
    return interpreter.inside(Path(shutil.copy(callbacks, target_folder(interpreter))))


def test_called_back(interpreter: Interpreter, library: str, start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN Python called back by sqlite3, OpenSSL, and C++ that unwinds, each three times THEN each frame is gdb's,
    and those that C++ has noted are among them."""
    target = start_target(interpreter, "libraries.py", 21, library)
    wait_until_it_reads(target)
    frames, loss = own_stack(target.pid)
    assert loss is None
    pcs = [frame[0] for frame in frames]
    assert pcs == gdb_stack(target.pid, tmp_path, interpreter.chroot)
    noted = target.ready["returned_to"]
    assert len(noted) == 9
    assert [pc for pc in pcs if pc in noted] == noted[::-1]


def go_on(target: Target) -> None:
    assert target.process.stdin is not None
    target.process.stdin.write(b"x")
    target.process.stdin.flush()


def interrupt(target: Target) -> None:
    """Let the target compute for a moment, then send the signal that makes it read its stdin again."""
    go_on(target)
    begun = cpu_ns(target.pid)
    wait_until(lambda: cpu_ns(target.pid) > begun + COMPUTED_NS, "it computes")
    os.kill(target.pid, signal.SIGUSR1)
    wait_until_it_reads(target)


def assert_as_gdb(interpreter: Interpreter, target: Target, folder: Path) -> None:
    """Each frame is gdb's: those of a signal's handler, the signal's own, and those of what it has interrupted."""
    frames, loss = own_stack(target.pid)
    assert loss is None
    assert [frame[0] for frame in frames] == gdb_stack(target.pid, folder, interpreter.chroot)
    assert [frame[3] for frame in frames].count(False) == 2, "all but two have called something"


@pytest.mark.parametrize("apart", [0, 1], ids=["its-stack", "own-stack"])
def test_interrupted(
    interpreter: Interpreter, library: str, start_target: StartTarget, tmp_path: Path, apart: int
) -> None:
    """GIVEN a signal that comes at any instruction of a digest, a sort or a query THEN each frame is gdb's."""
    target = start_target(interpreter, "computes.py", "mixed", library, apart)
    wait_until_it_reads(target)
    for _ in range(POINTS):
        interrupt(target)
        assert_as_gdb(interpreter, target, tmp_path)


@pytest.fixture
def numpy(packages: Path, interpreter: Interpreter, lack: Callable[[str], NoReturn]) -> str:
    """Where the interpreter finds numpy, if it is one of those that it is installed for (scripts/setup_tests.py)."""
    if interpreter.minor not in {(3, 9), (3, 11), (3, 13), (3, 14)}:
        pytest.skip("numpy is tried with four versions")
    if not (packages / "numpy").exists():
        lack("no numpy for it on this machine")
    return interpreter.inside(packages)


def test_numpy_calls_back(
    interpreter: Interpreter, library: str, numpy: str, start_target: StartTarget, tmp_path: Path
) -> None:
    """GIVEN Python called back by numpy too THEN each frame is gdb's."""
    target = start_target(interpreter, "libraries.py", 20, library, numpy)
    wait_until_it_reads(target)
    frames, loss = own_stack(target.pid)
    assert loss is None
    assert [frame[0] for frame in frames] == gdb_stack(target.pid, tmp_path, interpreter.chroot)


def test_openblas(
    interpreter: Interpreter, library: str, numpy: str, start_target: StartTarget, tmp_path: Path
) -> None:
    """GIVEN a signal that comes at any instruction of OpenBLAS's dot THEN each frame is gdb's."""
    target = start_target(interpreter, "computes.py", "dot", library, 0, numpy, env={"OPENBLAS_NUM_THREADS": "1"})
    wait_until_it_reads(target)
    for _ in range(POINTS):
        interrupt(target)
        assert_as_gdb(interpreter, target, tmp_path)


def test_assembly(
    interpreter: Interpreter, library: str, numpy: str, start_target: StartTarget, tmp_path: Path
) -> None:
    """GIVEN a signal that comes in an assembly kernel of OpenBLAS, whose first instructions alone tell how to unwind it
    THEN its callers are those that gdb has seen where it begins, and the seam behind them is proven by its address.
    (From within it gdb goes on with thousands of guesses, or gives up.)"""
    kernel = "dgemm_kernel_HASWELL"
    env = {"OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "Haswell"}
    target = start_target(interpreter, "computes.py", "product", library, 1, numpy, env=env)
    wait_until_it_reads(target)
    go_on(target)
    callers = gdb_callers(target.pid, tmp_path, interpreter.chroot, kernel, 40)
    os.kill(target.pid, signal.SIGUSR1)
    wait_until_it_reads(target)
    functions: list[str] = []
    for _ in range(100):  # some of the work is done in C
        interrupt(target)
        (thread,) = json.loads(run_weft("dump", "--json", "--all-frames", target.pid).stdout)["threads"]
        functions = [frame["function"] for frame in thread["frames"]]
        if kernel in functions:
            break
    assert kernel in functions
    assert thread["native_loss"] is None
    python = [frame["function"] for frame in thread["frames"] if frame["kind"] == "python"]
    assert python == ["product", "main", "<module>"]
    assert {frame["seam"] for frame in thread["frames"] if frame.get("seam")} == {"proven"}
    assert functions.index(kernel) < functions.index("product")
    frames, _ = own_stack(target.pid)
    interrupted = max(at for at, frame in enumerate(frames) if not frame[3])
    assert [frame[0] for frame in frames[interrupted + 1 :]] in callers
