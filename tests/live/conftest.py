"""`weft view` in a process of its own, and its page in a headless Chromium."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from report_page import Page, close_all
from viewing import address
from weft_command import LIMIT_S, running_weft

StartView = Callable[..., str]
OpenView = Callable[..., Page]


@pytest.fixture
def start_view() -> Iterator[StartView]:
    """Starts `weft view` with these arguments; gives the page's address. At the end, Ctrl-C ends it with status 0."""
    with ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []

        def start(*arguments: object) -> str:
            started.append(stack.enter_context(running_weft("view", "--no-browser", *arguments)))
            return address(started[-1])

        yield start
        for weft in started:
            weft.send_signal(signal.SIGINT)
            _, errors = weft.communicate(timeout=LIMIT_S)
            assert (weft.returncode, errors) == (0, b"")


@pytest.fixture
def open_view(chromium: Browser, start_view: StartView) -> Iterator[OpenView]:
    """Opens the served page of a capture. It complains of nothing, and asks nobody else for anything."""
    pages: list[Page] = []

    def open_it(capture: Path, *arguments: str, **options: object) -> Page:
        pages.append(Page(chromium, start_view(*arguments, capture), **options))  # type: ignore[arg-type]
        return pages[-1]

    yield open_it
    close_all(pages, "blob:", "data:")
