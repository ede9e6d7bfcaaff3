"""A page in Chromium, and how long it takes to open."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page, Playwright

LIMIT_MS = 600_000
_DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def new_page(playwright: Playwright) -> Page:
    """An empty page of a laptop's size, in a browser of its own."""
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    return browser.new_page(viewport={"width": 1440, "height": 900})


def opening_s(page: Page, url: str, times: int) -> list[float]:
    """Seconds until all of a report is drawn, in ascending order. The page shows it in the end."""
    taken = []
    for _ in range(times):
        page.goto("about:blank")
        began = time.monotonic()
        page.goto(url)
        page.wait_for_selector("body[data-ready]", timeout=LIMIT_MS)
        page.evaluate(_DRAWN)
        taken.append(time.monotonic() - began)
    return sorted(taken)
