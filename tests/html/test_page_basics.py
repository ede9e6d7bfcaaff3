"""The page loads, shows its profile and its account, and asks for nothing else."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Callable, Iterator

import pytest
from flame_page import Page
from html_profiles import Recording, account, random_recording
from selenium.webdriver.common.keys import Keys

from weft.profile.quality import Reason
from weft.report.html import render

OpenPage = Callable[..., Page]


def test_shows_title_table_and_account_without_a_complaint(open_page: OpenPage) -> None:
    recording = Recording()
    recording.add("main load parse", 750)
    recording.add("main", 250)
    page = open_page(recording, title="app.py & friends")
    assert page.browser.title == "app.py & friends"
    assert "process 4242" in page.text("facts")
    assert page.rows == [
        ("parse", "app.py:1", 75.0, 75.0),
        ("main", "app.py:1", 25.0, 100.0),
        ("load", "app.py:1", 0.0, 75.0),
    ]
    assert page.text("selected").startswith("alltotal 1.00 s (100 %)")


def test_losses_are_in_sight_and_the_account_is_at_the_end(open_page: OpenPage) -> None:
    recording = Recording()
    for i in range(60):  # a page that is longer than the window
        recording.add(f"main function_{i}", 10)
    honest = account(lost=[Reason("unreadable", 7, 7_000_000)])
    page = open_page(recording, account=honest)
    assert page.text("losses") == honest.summary
    assert "7 lost" in page.text("losses")
    panel = page.browser.find_element("css selector", "main > *:last-child")
    assert panel.get_attribute("id") == "account"
    beneath = "return document.querySelector('footer').getBoundingClientRect().bottom - innerHeight"
    assert page.run(beneath) == 0, "the line of losses is in sight at the top of a page longer than the window"
    page.run(
        """const summary = document.querySelector("#account summary");
        scrollTo(0, scrollY + summary.getBoundingClientRect().bottom - innerHeight);
        summary.focus()"""
    )
    page.painted()
    assert page.run(beneath) == 0, "and where the page has been scrolled to"
    hidden = """const [panel, footer] = ["#account summary", "footer"].map((at) => document.querySelector(at));
    return panel.getBoundingClientRect().bottom - footer.getBoundingClientRect().top"""
    assert page.run(hidden) <= 0, "what gets the focus comes out from behind that line"
    page.keys(Keys.ENTER)
    assert panel.find_element("tag name", "pre").text.splitlines() == [line.rstrip() for line in honest.lines()]


def test_asks_for_nothing_but_itself(open_page: OpenPage) -> None:
    page = open_page(random_recording(1))
    page.choose("inverted", "yes")
    page.search("run")
    assert [url.rpartition("/")[2] for url in page.requests()] == ["0.html"]


class Listener(http.server.BaseHTTPRequestHandler):
    seen: set[str]

    def do_GET(self) -> None:
        self.seen.add(self.path.partition("?")[0])
        self.send_response(204)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def listener() -> Iterator[tuple[str, set[str]]]:
    seen: set[str] = set()
    handler = type("Handler", (Listener,), {"seen": seen})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
        server.shutdown()
        thread.join()


INTRUDE = """
const [base, done] = arguments;
const wait = (element, url) => new Promise((ready) => {
  element.onload = element.onerror = ready;
  if (element.tagName === "LINK") { element.rel = "stylesheet"; element.href = url; } else element.src = url;
  document.body.append(element);
});
const make = (tag) => document.createElement(tag);
Promise.allSettled([
  fetch(base + "/fetch", { mode: "no-cors" }),
  wait(make("img"), base + "/img"),
  wait(make("script"), base + "/script"),
  wait(make("link"), base + "/link"),
]).then(() => {
  const inline = make("script");
  inline.textContent = "window.intruded = true";
  document.body.append(inline);
  done(window.intruded === true);
});
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_policy_forbids_all_network_and_foreign_scripts(
    open_page: OpenPage, listener: tuple[str, set[str]], guarded: bool
) -> None:
    """Code that got into the page somehow can neither call home nor run more. Without the policy, the same code can."""
    base, seen = listener
    recording = Recording()
    recording.add("main", 10)
    html = render(recording.profile(), "app.py", account())
    if not guarded:
        html = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", html)
    page = open_page(html)
    intruded = page.browser.execute_async_script(INTRUDE, base)
    assert intruded is not guarded
    assert seen == (set() if guarded else {"/fetch", "/img", "/script", "/link"})
    complaints = page.complaints()
    assert len([c for c in complaints if "Content Security Policy" in c]) >= 5 or not guarded


def test_nothing_seen_says_so(open_page: OpenPage) -> None:
    page = open_page(Recording())
    assert page.browser.find_element("id", "empty").is_displayed()
    assert page.rows == []
    page.click(0.5, 0)
    page.focus_graph()
    page.keys("\ue015", "\ue007")  # arrow down, Enter
    assert page.crumbs == ["all"]


def test_every_control_has_a_name(open_page: OpenPage) -> None:
    """By Chromium's own accessibility tree."""
    page = open_page(random_recording(2))
    page.browser.find_element("css selector", "#threads summary").click()
    nodes = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = {"button", "checkbox", "radio", "searchbox", "application", "radiogroup", "table", "DisclosureTriangle"}
    named = [(n["role"]["value"], n["name"]["value"]) for n in nodes if n.get("role", {}).get("value") in roles]
    assert {"button", "checkbox", "radio", "searchbox", "application"} <= {role for role, _ in named}
    assert [role for role, name in named if not name.strip() and role not in ("table",)] == []
