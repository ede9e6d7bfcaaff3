"""What all tests share: the matrix of interpreters and the target programs that they run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from interpreters import Interpreter, all_interpreters, missing

TARGETS = Path(__file__).resolve().parent / "targets"
START_LIMIT_S = 120  # a machine under load is slow; this only ends a target that will never be ready


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-interpreters", action="store_true", help="fail, instead of skip, where a supported Python is missing"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "serial: must have the machine to itself; make test runs these last, alone")


def pytest_report_header() -> list[str]:
    header = ["interpreters: " + ", ".join(interpreter.name for interpreter in all_interpreters())]
    if missing():
        header.append("MISSING interpreters: " + ", ".join(f"{major}.{minor}" for major, minor in missing()))
    return header


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `interpreter` on each of them; a missing version is a test too, which skips or fails."""
    if "interpreter" in metafunc.fixturenames:
        present = {interpreter.name: interpreter for interpreter in all_interpreters()}
        absent = {f"missing-{major}.{minor}": (major, minor) for major, minor in missing()}
        matrix = {**present, **absent}
        metafunc.parametrize("interpreter", matrix.values(), ids=matrix.keys(), indirect=True)


@pytest.fixture
def interpreter(request: pytest.FixtureRequest) -> Interpreter:
    """Each interpreter of the machine in turn."""
    if isinstance(request.param, Interpreter):
        return request.param
    reason = "no Python {}.{} on this machine".format(*request.param)
    if request.config.getoption("--all-interpreters"):
        pytest.fail(reason)
    pytest.skip(reason)


class Target:
    """A running target program. `ready` is what it told in its first line, a JSON object."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by end)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=env,
            start_new_session=True,  # so that end() reaches the children of the target too
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()),  # not that of the tests, whatever it is
        )
        self.pid = self.process.pid  # of the Python process, as the host sees it
        self.ready = self.next_line()

    def next_line(self) -> dict[str, Any]:
        """The next line that the target writes, decoded; an error where it ends first or is silent for too long."""
        assert self.process.stdout is not None
        limit = threading.Timer(START_LIMIT_S, self._kill)
        limit.start()
        line = self.process.stdout.readline()
        limit.cancel()
        if not line:
            self.process.wait()
            raise AssertionError(f"the target ended with {self.process.returncode}: {self.errors()}")
        told = json.loads(line)
        assert isinstance(told, dict)
        return told

    def finish(self) -> int:
        """Close the target's stdin, which every target program takes as the sign to end; gives its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(START_LIMIT_S)

    def errors(self) -> str:
        """What the target wrote to stderr so far."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # the whole group has ended
            os.killpg(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the target and what it started, whatever it does; for teardown."""
        self._kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self._errors):
            assert file is not None
            file.close()


@pytest.fixture(scope="session")
def target_folder() -> Iterator[Callable[[Interpreter], Path]]:
    """Where an interpreter finds the target programs: tests/targets, or a copy of it in its chroot (host path)."""
    copies: dict[Path | None, Path] = {None: TARGETS}

    def folder(interpreter: Interpreter) -> Path:
        tree = interpreter.chroot
        if tree not in copies:
            assert tree is not None
            copies[tree] = Path(tempfile.mkdtemp(prefix="weft-targets-", dir=tree / "tmp"))
            shutil.copytree(TARGETS, copies[tree], dirs_exist_ok=True)
        return copies[tree]

    yield folder
    for tree, copy in copies.items():
        if tree is not None:
            shutil.rmtree(copy)


StartTarget = Callable[..., Target]


@pytest.fixture
def start_target(target_folder: Callable[[Interpreter], Path]) -> Iterator[StartTarget]:
    """Start a program with an interpreter and wait for its ready line: `start_target(interpreter, script, *args)`.

    `script` is the name of one under tests/targets, or the path of any other file, which is copied to where the
    interpreter sees it. `env` adds variables.
    """
    started: list[Target] = []

    def start(interpreter: Interpreter, script: str | Path, *args: object, env: dict[str, str] | None = None) -> Target:
        path = target_folder(interpreter) / script
        if interpreter.chroot is not None and not path.is_relative_to(interpreter.chroot):
            path = Path(shutil.copy(path, target_folder(interpreter)))
        target = Target(
            [*interpreter.command, interpreter.inside(path), *map(str, args)], {**target_env(), **(env or {})}
        )
        started.append(target)
        return target

    yield start
    for target in started:
        target.end()


def target_env() -> dict[str, str]:
    """An environment for targets, with nothing of the one that the tests run in."""
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/tmp"}
