"""`pytest --weft`: which tests take time, and in what: a flame graph a test, of one recording of the whole session.

pytest loads this file wherever weft is installed: it loads nothing else before --weft asks for it.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from weft.profile.tables import Profile
    from weft.recording import Recording

SLOWEST = 10  # tests in the summary
FEWEST = 10  # samples of a test that has a flame graph
_CAPTURE = "session.weft"


@dataclass(frozen=True)
class TestTimes:
    """What a test took, in ns; of all threads but for the first."""

    __test__ = False

    test: str
    lasted_ns: int
    running_ns: int
    gil_ns: int
    samples: int  # of running_ns and gil_ns
    hottest: str  # the Python function that took most, with the native code that it called; "": none
    page: str  # the file with its flame graph; "": none


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("weft", "profiling with weft")
    group.addoption("--weft", action="store_true", help="record the tests: the slowest ones, a flame graph a test")
    group.addoption("--weft-dir", type=Path, default=Path("weft-tests"), metavar="DIR", help="for the flame graphs")
    group.addoption("--weft-rate", type=int, default=499, metavar="HZ", help="samples a second (%(default)s)")


def pytest_configure(config: pytest.Config) -> None:
    """Takes part in the session if it is asked for."""
    if config.getoption("--weft"):
        config.pluginmanager.register(_Session(config), "weft-session")


class _Session:
    """One session, or one worker of it, or (with pytest-xdist) what gathers what the workers tell."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._folder = Path(config.rootpath, config.getoption("--weft-dir"))
        self._worker = str(getattr(config, "workerinput", {}).get("workerid", ""))
        self._recording: Recording | None = None
        self._windows: list[tuple[str, int, int]] = []
        self._tests: list[TestTimes] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Starts recording; what runs no tests itself does not."""
        from weft.errors import WeftError
        from weft.recording import Recording

        if session.config.pluginmanager.hasplugin("dsession"):
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{self._worker}-{_CAPTURE}" if self._worker else _CAPTURE
            self._recording = Recording(self._folder / name, rate_hz=self._config.getoption("--weft-rate"), idle=True)
            self._recording.__enter__()
        except (WeftError, OSError) as error:
            self._recording = None
            raise pytest.UsageError(f"--weft: {error}") from error

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Notes when a test itself begins and ends, without its fixtures."""
        start_ns = time.monotonic_ns()
        try:
            return (yield)
        finally:
            self._windows.append((item.nodeid, start_ns, time.monotonic_ns()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Ends the recording and writes the flame graphs."""
        if self._recording is None:
            return
        from weft.errors import WeftError

        try:
            self._recording.__exit__(None, None, None)
            self._tests = list(_tests(self._recording, self._windows, self._folder))
        except WeftError as error:
            raise pytest.UsageError(f"--weft: {error}") from error
        if self._worker:
            self._config.workeroutput["weft"] = [asdict(test) for test in self._tests]  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes what a worker of pytest-xdist tells."""
        told = getattr(node, "workeroutput", {}).get("weft", [])
        self._tests += [TestTimes(**each) for each in told]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The slowest tests."""
        from weft.profile.units import amount, duration

        if not self._tests:
            return
        terminalreporter.section("slowest tests, by weft")
        slowest = sorted(self._tests, key=lambda test: -test.lasted_ns)
        terminalreporter.write_line(
            f"{'time':>9} {'running':>9} {'GIL wait':>9}  test, and the function it spent most in"
        )
        for test in slowest[:SLOWEST]:
            times = (duration(ns) for ns in (test.lasted_ns, test.running_ns, test.gil_ns))
            told = " ".join(f"{each:>9}" for each in times)
            terminalreporter.write_line(f"{told}  {test.test}{f'  {test.hottest}' if test.hottest else ''}")
        pages = sum(bool(test.page) for test in self._tests)
        terminalreporter.write_line(f"{amount(pages, 'flame graph')} in {self._folder}")


def _tests(recording: Recording, windows: list[tuple[str, int, int]], folder: Path) -> Iterator[TestTimes]:
    """What each test took; writes its flame graph."""
    from weft.profile.tables import Profile
    from weft.profile.windows import within
    from weft.report import html

    with recording.results as results:
        everything = Profile.from_capture(results.capture, html.ALL)
        parts = within(results.capture, everything, [(start, end) for _, start, end in windows])
        for (test, start, end), part in zip(windows, parts, strict=True):
            active = part.profile.active()
            page = ""
            if active.ticks >= FEWEST:
                path = folder / _file_name(test)
                path.write_text(html.render(results.capture, title=test, part=part), "utf-8")
                page = str(path)
            yield TestTimes(test, end - start, *_times(active), active.ticks, _hottest(active), page)


def _times(active: Profile) -> tuple[int, int]:
    from weft.sample import State

    waits = sum(total.weight_ns for total in active.totals if total.state is State.GIL)
    return active.weight_ns - waits, waits


def _hottest(active: Profile) -> str:
    """The Python function that took most, with the native code that it called."""
    from weft.profile.gil import PYTHON
    from weft.profile.names import escape, short_file

    taken: dict[tuple[str, str], int] = {}
    stacks = active.stacks
    for total in active.totals:
        node = total.stack
        while node and active.frames[stacks.frame[node]].kind not in PYTHON:
            node = stacks.parent[node]
        if node:
            frame = active.frames[stacks.frame[node]]
            taken[frame.function, frame.file] = taken.get((frame.function, frame.file), 0) + total.weight_ns
    if not taken:
        return ""
    function, file = max(taken, key=lambda key: taken[key])
    return f"{escape(function)} ({escape(short_file(file))})"


def _file_name(test: str) -> str:
    """A name that any file system takes, and that no other test has."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", test).strip("-.")[-80:]
    return f"{plain}-{hashlib.sha256(test.encode()).hexdigest()[:8]}.html"
