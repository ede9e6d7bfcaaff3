"""The report as a user has it: what it shows, and what he does to it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator

ROW = 20  # CSS pixels, as in paint.js
READY = "body[data-ready]"


class Page:
    """One page, a file or an address, in a window of its own. What it complains of and asks for is kept."""

    def __init__(
        self, browser: Browser, place: Path | str, *, dark: bool = False, pixel_ratio: float = 1, width: int = 1440,
        height: int = 900, fragment: str = "", touch: bool = False, ready: bool = True,
    ) -> None:  # fmt: skip
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            device_scale_factor=pixel_ratio,
            reduced_motion="reduce",  # what glides would be somewhere on the way
            has_touch=touch,
            accept_downloads=True,
        )
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.url = place if isinstance(place, str) else place.as_uri()
        self.page.goto(self.url + fragment)
        if ready:
            self.page.wait_for_selector(READY)
            self.painted()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def run(self, script: str, *arguments: object) -> Any:
        """Runs statements in the page; `arguments` are theirs."""
        return self.page.evaluate(f"(given) => (function () {{ {script} }}).apply(null, given)", arguments)

    def painted(self) -> None:
        """Waits for the graphs to be drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    # What is shown

    def find(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def text(self, selector: str) -> str:
        return plain(self.page.locator(selector).first.text_content() or "")

    def texts(self, selector: str) -> list[str]:
        return [plain(text) for text in self.page.locator(selector).all_text_contents()]

    @property
    def crumbs(self) -> list[str]:
        return self.texts("#crumbs li")

    @property
    def rows(self) -> dict[tuple[str, str], tuple[float, float]]:
        """The table of functions: (function, place) -> percent of self and total time."""
        self.view("functions")
        while self.page.locator("#top tr.more").count():
            self.page.locator("#top tr.more button").click()
        cells = self.run(
            """return [...document.querySelectorAll('#top tbody tr')].map((row) => [
              row.cells[2].querySelector('.name').textContent, row.cells[3].title,
              row.cells[0].textContent, row.cells[1].textContent])"""
        )
        return {(name, place): (percent(own), percent(total)) for name, place, own, total in cells}

    def pixel(self, selector: str, x: float, y: float) -> tuple[int, int, int]:
        """The colour that a canvas has, at a share of its width and so many CSS pixels down."""
        self.painted()
        red, green, blue, _ = self.run(
            """const canvas = document.querySelector(arguments[0]), ratio = devicePixelRatio;
            const at = [arguments[1] * canvas.clientWidth * ratio, arguments[2] * ratio];
            const copy = new OffscreenCanvas(1, 1).getContext("2d");
            copy.drawImage(canvas, ...at.map(Math.floor), 1, 1, 0, 0, 1, 1);
            return [...copy.getImageData(0, 0, 1, 1).data]""",
            selector, x, y,
        )  # fmt: skip
        return red, green, blue

    def colour(self, variable: str) -> tuple[int, int, int]:
        """A colour of the style sheet."""
        text = self.run("return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])", variable)
        assert re.fullmatch("#[0-9a-f]{6}", text.strip())
        return tuple(int(text.strip()[i : i + 2], 16) for i in (1, 3, 5))  # type: ignore[return-value]

    # What the user does

    def view(self, name: str) -> None:
        self.page.click(f"#tab-{name}")
        self.painted()

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def point(self, x: float, level: float, graph: str = "#graph") -> None:
        """Moves the pointer to a share of a graph's width, in a level counted from the top of what is in sight."""
        area = self.page.locator(graph).bounding_box()
        assert area
        self.page.mouse.move(area["x"] + x * area["width"], area["y"] + (level + 0.5) * ROW)
        self.painted()

    def click(self, x: float, level: float, graph: str = "#graph") -> None:
        self.point(x, level, graph)
        self.page.mouse.down()
        self.page.mouse.up()
        self.page.mouse.move(0, 0)
        self.painted()

    def drag(self, selector: str, begin: float, end: float, y: float = 0.5) -> None:
        """Drags over an element from one share of its width to another."""
        area = self.page.locator(selector).bounding_box()
        assert area
        down = area["y"] + y * area["height"]
        self.page.mouse.move(area["x"] + begin * area["width"], down)
        self.page.mouse.down()
        self.page.mouse.move(area["x"] + (begin + end) / 2 * area["width"], down)
        self.page.mouse.move(area["x"] + end * area["width"], down)
        self.page.mouse.up()
        self.painted()

    def choose(self, name: str, value: str) -> None:
        """A choice of the toolbar, or of the menu of frames."""
        if name == "merge":
            self.open_menu("frames")
        self.page.click(f"input[name={name}][value={value}] + span")
        self.close_menu()

    def open_menu(self, menu: str) -> None:
        if not self.run("return document.getElementById(arguments[0]).open", menu):
            self.page.click(f"#{menu} > summary")

    def close_menu(self) -> None:
        if self.page.locator("details.menu[open]").count():
            self.keys("Escape")
        self.painted()

    def toggle_state(self, state: int) -> None:
        self.open_menu("states")
        self.page.click(f"#states input[value='{int(state)}']")
        self.close_menu()

    def toggle(self, box: str) -> None:
        """A check box of the menu of frames, by its id."""
        self.open_menu("frames")
        self.page.click(f"#{box}")
        self.close_menu()

    def fold(self, module: str) -> None:
        self.open_menu("frames")
        self.page.locator("#modules li", has_text=module).locator("input").click()
        self.close_menu()

    def only_thread(self, name: str) -> None:
        self.open_menu("threads")
        self.page.click(f"#threads button[aria-label^='Only {name}']")
        self.close_menu()

    def search(self, text: str) -> None:
        self.page.fill("#search", text)
        self.painted()

    def download(self, kind: str) -> bytes:
        """What saving the view as svg or png gives."""
        self.page.click("details.only-picture > summary")
        with self.page.expect_download() as got:
            self.page.click(f"[data-save={kind}]")
        return Path(got.value.path()).read_bytes()


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def percent(text: str) -> float:
    """The one percentage in a text."""
    (number,) = re.findall(r"([\d.]+)\s%", text)
    return float(number)


def close_all(pages: Iterable[Page], *schemes: str) -> None:
    """Close pages that complain of nothing, and have asked for nothing but themselves and what is of these schemes."""
    for page in pages:
        page.context.close()
    for page in pages:
        assert page.complaints == []
        assert [url for url in page.requests if not url.startswith((*schemes, page.url))] == []
