"""A headless Chromium, driven as a user would: by pointer, keys and what a screen reader gets to hear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from report_page import Page, close_all
from report_recordings import Recording

from weft.capture import Capture
from weft.profile.tables import View
from weft.report.html import render

OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(chromium: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Opens the page of a recording or a capture, or any other text as a page.

    At the end, nothing has been complained about, and nothing but the page itself and what it saves was asked for.
    """
    pages: list[Page] = []

    def open_it(given: Recording | Path | str, *, idle: bool = False, **options: object) -> Page:
        number = len(pages)
        if isinstance(given, Recording):
            given = given.write(tmp_path / f"{number}.weft")
        if isinstance(given, Path):
            with Capture(given) as capture:
                given = render(capture, View(idle=idle))
        path = tmp_path / f"{number}.html"
        path.write_text(given, "utf-8")
        pages.append(Page(chromium, path, **options))
        return pages[-1]

    yield open_it
    close_all(pages, "blob:")
