"""The flame graph page as a user has it: what it shows, and what he does to it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROW = 20  # CSS pixels, as in paint.js
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
)


def start_browser(chromium: str, driver: str, profile: Path) -> Chrome:
    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Chrome(options=options, service=Service(driver))


class Page:
    def __init__(self, browser: Chrome, path: Path, *, dark: bool = False, pixel_ratio: float = 1) -> None:
        self.browser = browser
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        metrics = {"width": 1280, "height": 1000, "deviceScaleFactor": pixel_ratio, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        for log in ("browser", "performance"):
            browser.get_log(log)  # what earlier pages left
        browser.get(path.as_uri())
        self.painted()

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def requests(self) -> list[str]:
        """Every URL asked for since the page was opened."""
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def run(self, script: str, *arguments: object) -> Any:
        return self.browser.execute_script(script, *arguments)

    def painted(self) -> None:
        """Waits for the graph to be drawn."""
        self.browser.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        )

    # What is shown

    def text(self, element: str) -> str:
        return self.run("return document.getElementById(arguments[0]).textContent", element).replace("\u00a0", " ")

    @property
    def crumbs(self) -> list[str]:
        return [item.text for item in self.browser.find_elements(By.CSS_SELECTOR, "#crumbs li")]

    @property
    def rows(self) -> list[tuple[str, str, float, float]]:
        """The table: function, place, and percent of self and total time."""
        cells = self.run(
            "return [...document.querySelectorAll('#top tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
        )
        return [(name, place, percent(own), percent(total)) for own, total, name, place in cells]

    @property
    def marked(self) -> set[str]:
        """Functions of the table that the search has found."""
        return set(
            self.run("return [...document.querySelectorAll('#top tr.match td:nth-child(3)')].map(c => c.textContent)")
        )

    def pixel(self, x: float, level: int) -> tuple[int, int, int]:
        """The colour of the graph at a share of its width, away from any text, in a level counted from the top."""
        self.painted()
        red, green, blue, _ = self.run(
            """const canvas = document.querySelector("#graph canvas"), ratio = devicePixelRatio;
            const at = [arguments[0] * canvas.clientWidth * ratio, (arguments[1] + 0.87) * 20 * ratio];
            const copy = new OffscreenCanvas(1, 1).getContext("2d");
            copy.drawImage(canvas, ...at.map(Math.floor), 1, 1, 0, 0, 1, 1);
            return [...copy.getImageData(0, 0, 1, 1).data]""",
            x,
            level,
        )
        return red, green, blue

    def colour(self, variable: str) -> tuple[int, int, int]:
        """A colour of the style sheet."""
        text = self.run("return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])", variable)
        return rgb(text.strip())

    # What the user does

    def actions(self) -> ActionChains:
        return ActionChains(self.browser, duration=0)  # ms a move of the pointer takes

    def keys(self, *keys: str) -> None:
        self.actions().send_keys(*keys).perform()

    def control(self, key: str) -> None:
        self.actions().key_down(Keys.CONTROL).send_keys(key).key_up(Keys.CONTROL).perform()

    def point(self, x: float, level: int) -> ActionChains:
        """Moves the pointer to a share of the graph's width, in a level counted from the top of what is in sight."""
        graph = self.browser.find_element(By.CSS_SELECTOR, "#graph canvas")
        size = graph.size
        right, down = (x - 0.5) * size["width"], (level + 0.5) * ROW - size["height"] / 2
        actions = self.actions().move_to_element_with_offset(graph, round(right), round(down))
        actions.perform()
        return actions

    def click(self, x: float, level: int) -> None:
        self.point(x, level).click().perform()
        self.point(0, 0).move_by_offset(0, -60).perform()  # out of the way

    def choose(self, name: str, value: str) -> None:
        self.browser.find_element(By.CSS_SELECTOR, f"input[name={name}][value={value}] + span").click()

    def toggle_state(self, state: int) -> None:
        self.browser.find_element(By.CSS_SELECTOR, f"#states input[value='{state}']").click()

    def only_thread(self, name: str) -> None:
        self.browser.find_element(By.CSS_SELECTOR, "#threads summary").click()
        self.browser.find_element(By.CSS_SELECTOR, f"#threads button[aria-label^='Only {name}']").click()
        self.keys(Keys.ESCAPE)

    def search(self, text: str) -> None:
        """Types the text in place of what was searched before."""
        self.control("f")
        self.keys(Keys.BACKSPACE, *text)

    def focus_graph(self) -> None:
        self.run("document.getElementById('graph').focus()")


def percent(text: str) -> float:
    """The one percentage in a text."""
    (number,) = re.findall(r"([\d.]+)\s%", text)
    return float(number)


def rgb(text: str) -> tuple[int, int, int]:
    """#rrggbb as numbers."""
    assert re.fullmatch("#[0-9a-f]{6}", text)
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)
