"""What all tests share: the matrix of interpreters and the target programs that they run."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from zlib import crc32

import pytest
from interpreters import CACHE, Interpreter, all_interpreters, missing
from running import TARGETS, CompileLibrary, StartTarget, Target, target_env
from zig import compile_with_zig

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-interpreters", action="store_true", help="fail, instead of skip, where a supported Python is missing"
    )
    parser.addoption(
        "--by-turns",
        action="store_true",
        help="of tests that have an interpreter and other parameters: each interpreter, with one choice of the others",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell has what it starts in the background ignore Ctrl-C, and so would all that tests start and end by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "serial: must have the machine to itself; make test runs these last, alone")
    config.addinivalue_line("markers", "every_choice: of its parameters, each interpreter runs all, also --by-turns")


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --by-turns: one choice of the other parameters for each interpreter, another for the next."""
    if not config.getoption("--by-turns"):
        return
    tests: dict[str, dict[str, list[pytest.Item]]] = {}  # name -> interpreter -> a test for each choice of the others
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        for name, value in parameters.items():
            if name == "interpreter" or isinstance(value, Interpreter):
                choices = tests.setdefault(item.nodeid.partition("[")[0], {})
                choices.setdefault(getattr(value, "name", str(value)), []).append(item)
    kept = {id(item) for item in items} - {id(each) for by in tests.values() for them in by.values() for each in them}
    for name, by_interpreter in tests.items():
        first = crc32(name.encode())  # so that one interpreter has other choices in other tests
        for turn, choices in enumerate(by_interpreter.values(), first):
            by_turns = not choices[0].get_closest_marker("every_choice")
            kept |= {id(item) for item in ([choices[turn % len(choices)]] if by_turns else choices)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


@pytest.fixture(scope="session")
def lack(request: pytest.FixtureRequest) -> Callable[[str], NoReturn]:
    """Say what a test needs and the machine lacks: the test is skipped, or fails where all must be there."""
    return pytest.fail if request.config.getoption("--all-interpreters") else pytest.skip


@pytest.fixture(scope="session")
def program(lack: Callable[[str], NoReturn]) -> Callable[[str], str]:
    """The path of a program that a test needs, by its name."""
    return lambda name: shutil.which(name) or lack(f"there is no {name}")


@pytest.fixture(scope="module")
def chromium(program: Callable[[str], str]) -> Iterator[Browser]:
    """A headless Chromium, driven by Playwright: a module's own, as no other event loop can run in its thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def interpreter(request: pytest.FixtureRequest, lack: Callable[[str], NoReturn]) -> Interpreter:
    """Each interpreter of the machine in turn."""
    found: Interpreter | tuple[int, int] = request.param
    if isinstance(found, tuple):
        lack("no Python {}.{} on this machine".format(*found))
    return found


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


@pytest.fixture
def packages(
    interpreter: Interpreter, target_folder: Callable[[Interpreter], Path], lack: Callable[[str], NoReturn]
) -> Path:
    """A folder with the packages that scripts/setup_tests.py installs for this version (host path)."""
    folder = CACHE / "packages-{}.{}".format(*interpreter.minor)
    if not folder.exists():
        lack(f"there is no {folder}")
    if interpreter.chroot is None:
        return folder
    inside = target_folder(interpreter) / folder.name
    if not inside.exists():
        shutil.copytree(folder, inside)
    return inside


@pytest.fixture
def compile_library(target_folder: Callable[[Interpreter], Path], tmp_path: Path) -> CompileLibrary:
    """Compile C of tests/targets to a library that the interpreter sees: `compile_library(interpreter, source)`."""

    def compile_it(interpreter: Interpreter, source: str, *flags: str) -> Path:
        folder = target_folder(interpreter) if interpreter.chroot else tmp_path
        output = folder / Path(source).with_suffix(".so")
        return compile_with_zig(output, "-O1", "-shared", "-fPIC", TARGETS / source, *flags)

    return compile_it


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


@pytest.fixture
def start_traced(start_target: StartTarget) -> Iterator[StartTarget]:
    """Start a target with perf support, and remove the files that it has written in the end."""
    started: list[Path] = []

    def start(interpreter: Interpreter, script: str, *args: object, env: dict[str, str] | None = None) -> Target:
        target = start_target(interpreter, script, *args, env=env)
        folder = (interpreter.chroot or Path("/")) / "tmp"
        started.extend((folder / f"perf-{target.pid}.map", folder / f"jit-{target.pid}.dump"))
        return target

    yield start
    for path in started:
        path.unlink(missing_ok=True)


@pytest.fixture
def paranoid() -> Iterator[None]:
    """The upstream kernel's default, 2: no events of the kernel's side for ordinary users."""
    setting = Path("/proc/sys/kernel/perf_event_paranoid")
    before = setting.read_text()
    setting.write_text("2")
    yield
    setting.write_text(before)
