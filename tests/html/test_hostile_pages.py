"""Hostile names, stacks and trees at the limit, every kind of screen, and no way out of the page."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from report_page import Page
from report_recordings import MS, Recording, Seen, frame, random_recording

from weft.capture import Capture
from weft.report.html import render
from weft.sample import Frame, FrameFlag, FrameKind, State

OpenPage = Callable[..., Page]
VIEWS = ("flame", "timeline", "sandwich", "functions", "source")

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>window.hacked = 1</script>-->",
    '"><svg onload="window.hacked = 1">',
    "\u2028window.hacked = 1//\u2029",
    "&lt;b&gt;&amp;",
    "$title ${script} $$",
    "__proto__",
    "constructor",
    "evil\u202egnp.exe",
    "\u2066\u202eabc\u2069",
    "line\nfeed\x1b[31m\x00",
    "lone \udc80 surrogate",
    "日本語 \U0001f40d עברית",
    "x" * 10_000,
)


def escaped(name: str) -> str:
    """What cannot be printed as its escape; cut as the page cuts it."""
    text = name.encode("utf-8", "backslashreplace").decode()  # as a capture holds it
    text = text if len(text) <= 1000 else text[:1000] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text).replace("\\n", "\\x0a")


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_are_inert_and_shown_as_they_are(open_page: OpenPage, name: str) -> None:
    """A name may hold markup, script, templates, control and bidirectional characters, in every place for names."""
    file = f"/srv/{name}.py"
    native = Frame(FrameKind.NATIVE, name, "", 0, module=f"/lib/{name}.so")
    stack = (frame("main"), frame(name, file=file, line=3, first_line=1, end_line=3, column=1, end_column=9))
    recording = Recording(
        [Seen(stack, 6 * MS), Seen((*stack, native), 4 * MS), Seen(stack, 4 * MS, 2, State.GIL)],
        thread_names=(name, "other"),
        command=("python3", name),
        sources={file: f"# {name}\nimport this\n{name}\n"},
        waits=[(2, 2, 1, 0, 4 * MS)],
        losses={name: (3, MS)},
    )
    page = open_page(recording)
    shown = escaped(name)
    page.click(0.3, 2)
    assert page.text("#selected .name") == shown
    assert page.crumbs[2] == shown
    page.point(0.3, 2)
    assert page.text("#tip .name") == shown
    page.search(name[:3])
    page.open_menu("threads")
    assert shown in page.text("#threads")
    page.open_menu("frames")
    for view in VIEWS:
        page.view(view)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), view
    assert shown in page.text("#waits")
    assert shown in page.text("#account pre") or len(name) > 1000 or "\\" in shown
    page.view("flame")
    assert page.download("svg")
    assert page.run("return window.hacked") is None
    assert page.run("return document.images.length + document.querySelectorAll('svg').length") == 0
    assert not any("\u202e" in text or "\u2066" in text for text in page.texts("body"))


def test_the_data_hold_no_markup(tmp_path: Path) -> None:
    """Even before any browser has parsed it: the data ends where it ought to."""
    for number, name in enumerate(HOSTILE):
        with Capture(Recording([Seen((frame(name),), MS)]).write(tmp_path / f"{number}.weft")) as capture:
            html = render(capture)
        data = re.findall(r'<script id="profile" type="application/octet-stream">(.*?)</script>', html, re.DOTALL)
        assert len(data) == 1
        assert re.fullmatch(r"[A-Za-z0-9+/=]+", data[0])


def test_long_names_are_cut_and_still_told_apart(open_page: OpenPage) -> None:
    recording = Recording([Seen((frame("x" * 1_000_000 + end, line=3, first_line=3),), MS) for end in "ab"])
    page = open_page(recording)
    page.view("functions")
    assert [len(name) for name in page.texts("#top tbody .name")] == [1001, 1001]
    assert page.texts("#top td:nth-child(1) small") == ["50.0 %", "50.0 %"]


def test_100_000_frames_deep(open_page: OpenPage) -> None:
    """Recursion to the usual limit and beyond: any walk by recursion would overflow the page's own stack."""
    deep = tuple(frame("step" if i % 2 else "over", line=5, first_line=4) for i in range(100_000))
    recording = Recording([Seen(deep, 600 * MS), Seen((*deep, frame("leaf")), 300 * MS), Seen(deep[:50_000], 100 * MS)])
    page = open_page(recording)
    assert page.rows == {
        ("step", "/srv/app.py:4"): (70.0, 100.0),
        ("leaf", "/srv/app.py"): (30.0, 30.0),
        ("over", "/srv/app.py:4"): (0.0, 100.0),
    }
    page.view("flame")
    page.run("document.getElementById('graph').scrollTop = 1e9")
    page.painted()
    last = page.run("return document.getElementById('graph').clientHeight") / 20 - 1
    page.click(0.1, last)
    assert page.crumbs[-2:] == ["step", "leaf"]
    assert page.crumbs[1].endswith(" more")
    for view in VIEWS:
        page.view(view)
    page.search("leaf")
    assert page.text("#matched") == "30.0 % in 1 function"


def test_callers_of_recursion_that_was_seen_at_every_depth(open_page: OpenPage) -> None:
    """Finding all callers of all of them would take millions of steps; the graph says where it stopped, and goes on."""
    recording = Recording([Seen((frame("step"),) * depth, MS) for depth in range(1, 3_001)])
    page = open_page(recording)
    page.choose("inverted", "yes")
    page.run("document.getElementById('graph').scrollTop = 1e9")
    page.painted()
    last = page.run("return document.getElementById('graph').clientHeight") / 20 - 1
    depth = page.run("return document.getElementById('graph').scrollHeight")
    page.point(0.001, last)
    assert page.text("#tip").endswith("Zoom in to see its callers.")
    page.click(0.001, last)
    assert page.run("return document.getElementById('graph').scrollHeight") > depth, "a zoom goes on from there"


def test_a_hostile_source_is_text(open_page: OpenPage) -> None:
    """Markup, bidirectional overrides and control characters in a source are shown, and turn nothing around."""
    source = "if level != '\u202euser': <img src=x onerror=alert(1)>\t\x00\n"
    recording = Recording([Seen((frame("main", line=1, first_line=1),), MS)], sources={"/srv/app.py": source})
    page = open_page(recording)
    page.view("source")
    assert page.texts("#code td.code")[0] == "if level != '\\u{202e}user': <img src=x onerror=alert(1)>    \\u{0}"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_every_view_fits_every_screen(open_page: OpenPage, width: int, dark: bool) -> None:
    """From a phone to a wide screen: nothing sticks out sideways, menus are in sight, and the account always is."""
    flags = FrameFlag.PROVEN | FrameFlag.MACHINERY
    recording = random_recording(3)
    recording.add("a_function_of_a_module_with_a_long_name", 5)
    recording.seen.append(Seen((frame("f", "/srv/a_module_with_a_name_that_is_wider_than_a_phone.py", 3, 3),), MS))
    loop = Frame(FrameKind.NATIVE, "_PyEval_EvalFrameDefault", "ceval.c", 1, flags=flags, module="/usr/bin/python3.13")
    recording.seen = [Seen((loop, *s.stack), s.weight_ns, s.thread, s.state, s.ticks) for s in recording.seen]
    page = open_page(recording, width=width, height=800, dark=dark, touch=width < 500)
    for view in VIEWS:
        page.view(view)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), view
        beneath = "return document.querySelector('footer').getBoundingClientRect().bottom - innerHeight"
        assert page.run(beneath) <= 0, view
        assert "996 of 1,000 samples" in page.text("#losses")
    for menu in ("threads", "states", "frames"):
        page.open_menu(menu)
        page.painted()
        sheet = page.find(f"#{menu} .sheet").bounding_box()
        assert sheet
        assert sheet["x"] >= 0
        assert sheet["x"] + sheet["width"] <= width
        page.close_menu()
    paper = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 300) is dark


@pytest.mark.parametrize("pixel_ratio", [1, 1.5, 2])
def test_sharp_on_every_screen(open_page: OpenPage, pixel_ratio: float) -> None:
    """The canvas has as many pixels as the screen has behind it, and pointers still hit what they point at."""
    recording = Recording()
    recording.add("main left", 500)
    recording.add("main right", 400)
    page = open_page(recording, pixel_ratio=pixel_ratio)
    size = page.run("const c = document.querySelector('#graph canvas'); return [c.width, c.clientWidth]")
    assert size[0] == round(size[1] * pixel_ratio)
    page.click(0.9, 2)
    assert page.crumbs == ["all", "main", "right"]


def test_a_finger_taps_and_brushes(open_page: OpenPage) -> None:
    recording = Recording()
    recording.add("main left", 600)
    recording.add("main right", 400)
    page = open_page(recording, width=390, height=844, touch=True)
    area = page.find("#graph").bounding_box()
    assert area
    page.page.touchscreen.tap(area["x"] + 0.3 * area["width"], area["y"] + 50)
    assert page.crumbs == ["all", "main", "left"]


def test_losses_are_in_sight_and_the_account_is_at_the_end(open_page: OpenPage) -> None:
    recording = Recording(losses={"unreadable": (7, 7 * MS)})
    for i in range(60):
        recording.add(f"main function_{i}", 10)
    page = open_page(recording)
    assert "7 lost" in page.text("#losses")
    assert page.find("#losses").get_attribute("class") == "stained"
    page.view("functions")
    page.page.click("#account summary")
    assert "7 (unreadable 7), 7.00 ms" in page.text("#account pre")
    assert page.run("return document.querySelector('main > *:last-child').id") == "account"


def test_nothing_seen_says_so(open_page: OpenPage) -> None:
    page = open_page(Recording())
    assert page.find("#empty").is_visible()
    page.click(0.5, 0)
    page.find("#graph").focus()
    page.keys("ArrowDown", "Enter")
    for view in VIEWS:
        page.view(view)
    assert page.rows == {}


def test_every_control_has_a_name(open_page: OpenPage) -> None:
    """By Chromium's own accessibility tree."""
    page = open_page(random_recording(2))
    roles = {"button", "checkbox", "radio", "searchbox", "application", "radiogroup", "tab", "slider", "combobox"}
    found = set()
    for view in VIEWS:
        page.view(view)
        page.open_menu("frames")
        nodes = page.context.new_cdp_session(page.page).send("Accessibility.getFullAXTree")["nodes"]
        named = [(n["role"]["value"], n["name"]["value"]) for n in nodes if n.get("role", {}).get("value") in roles]
        assert [role for role, name in named if not name.strip()] == []
        found |= {role for role, _ in named}
    assert {"button", "checkbox", "radio", "searchbox", "application", "tab", "slider"} <= found


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
const [base] = arguments;
const wait = (element, url) => new Promise((ready) => {
  element.onload = element.onerror = ready;
  if (element.tagName === "LINK") { element.rel = "stylesheet"; element.href = url; } else element.src = url;
  document.body.append(element);
});
const make = (tag) => document.createElement(tag);
return Promise.allSettled([
  fetch(base + "/fetch", { mode: "no-cors" }),
  wait(make("img"), base + "/img"),
  wait(make("script"), base + "/script"),
  wait(make("link"), base + "/link"),
]).then(() => {
  const inline = make("script");
  inline.textContent = "window.intruded = true";
  document.body.append(inline);
  return window.intruded === true;
});
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_policy_forbids_all_network_and_foreign_scripts(
    open_page: OpenPage, listener: tuple[str, set[str]], tmp_path: Path, guarded: bool
) -> None:
    """Code that got into the page somehow can neither call home nor run more. Without the policy, the same code can."""
    base, seen = listener
    recording = Recording()
    recording.add("main", 10)
    with Capture(recording.write(tmp_path / "x.weft")) as capture:
        html = render(capture)
    if not guarded:
        html = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", html)
    page = open_page(html)
    assert page.run(INTRUDE, base) is not guarded
    assert seen == (set() if guarded else {"/fetch", "/img", "/script", "/link"})
    assert len([c for c in page.complaints if "Content Security Policy" in c]) >= 5 or not guarded
    page.complaints.clear()  # it was the test that asked
    page.requests.clear()
