"""A headless Chromium, driven as a user would: by pointer, keys and what a screen reader gets to hear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flame_page import Page, start_browser
from html_profiles import Recording, account
from selenium.webdriver import Chrome

from weft.profile.quality import Account
from weft.report.html import render

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str]) -> Iterator[Chrome]:
    chrome = start_browser(program("chromium"), program("chromedriver"), tmp_path_factory.mktemp("chromium"))
    yield chrome
    chrome.quit()


@pytest.fixture
def open_page(browser: Chrome, tmp_path: Path) -> Iterator[OpenPage]:
    """Opens the page of a recording, or any other text as a page; at the end, nothing has been complained about."""
    pages: list[Page] = []

    def open_it(recording: Recording | str, **options: object) -> Page:
        path = tmp_path / f"{len(pages)}.html"
        if isinstance(recording, Recording):
            title = str(options.pop("title", "app.py"))
            honest = options.pop("account", account())
            assert isinstance(honest, Account)
            recording = render(recording.profile(), title, honest, idle=bool(options.pop("idle", False)))
        path.write_text(recording, "utf-8")
        pages.append(Page(browser, path, **options))
        return pages[-1]

    yield open_it
    for page in pages:
        assert page.complaints() == []
