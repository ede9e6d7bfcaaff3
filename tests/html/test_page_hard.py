"""Hostile names, stacks and trees at the limit, every kind of screen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random

import pytest
from flame_page import Page
from html_profiles import MS, Recording, Seen, account, frame, random_recording
from selenium.webdriver.common.keys import Keys

from weft.report.html import render

OpenPage = Callable[..., Page]

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
    "line\nfeed\x1b[31m\x00",
    "lone \udc80 surrogate",
    "日本語 \U0001f40d עברית",
    "",
)


def escaped(name: str) -> str:
    """What cannot be printed as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name).replace("\\n", "\\x0a")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_inert_and_shown_as_they_are(open_page: OpenPage, name: str) -> None:
    """A name may hold markup, script, templates, control and bidirectional characters, in every place for names."""
    stack = (frame("main"), frame(name, file=f"/srv/{name}.py", line=3, first_line=1))
    recording = Recording([Seen(stack, 10 * MS)], thread_names=(name, "other"))
    page = open_page(recording, title=name)
    page.click(0.5, 2)
    page.point(0.5, 2)
    page.search(name.replace("\n", " ")[:3])
    page.browser.find_element("css selector", "#threads summary").click()
    assert page.run("return window.hacked") is None
    assert page.run("return document.images.length + document.querySelectorAll('svg').length") == 0
    shown = escaped(name)
    for element in ("selected", "tip", "crumbs", "threads", "top"):
        assert shown in page.text(element), element
    assert page.run("return document.querySelector('h1').textContent") == shown
    assert page.run("return document.querySelector('#selected .name').textContent") == shown


@pytest.mark.parametrize("name", HOSTILE)
def test_data_holds_no_markup(name: str) -> None:
    """Even before any browser has parsed it: the data ends where it ought to, and JSON readers get the name back."""
    html = render(Recording([Seen((frame(name),), MS)]).profile(), "app.py", account())
    data = re.findall(r'<script id="profile" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert len(data) == 1
    assert not set("<>&\u2028\u2029\n") & set(data[0])
    shown = escaped(name)
    assert shown in json.loads(data[0])["strings"]


def test_long_names_are_cut_and_still_told_apart(open_page: OpenPage) -> None:
    recording = Recording([Seen((frame("x" * 1_000_000 + end),), MS) for end in "ab"])
    page = open_page(recording)
    assert [(len(row[0]), row[2]) for row in page.rows] == [(1001, 50.0), (1001, 50.0)]
    page.point(0.25, 1)
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")


def test_100_000_frames_deep(open_page: OpenPage) -> None:
    """Recursion to the usual limit and beyond: any walk by recursion would overflow the page's own stack."""
    deep = tuple(frame("step" if i % 2 else "over", line=5, first_line=4) for i in range(100_000))
    recording = Recording([Seen(deep, 600 * MS), Seen((*deep, frame("leaf")), 300 * MS), Seen(deep[:50_000], 100 * MS)])
    page = open_page(recording)
    assert page.rows == [
        ("step", "app.py:4", 70.0, 100.0),
        ("leaf", "app.py", 30.0, 30.0),
        ("over", "app.py:4", 0.0, 100.0),
    ]
    page.run("document.getElementById('graph').scrollTop = 1e9")
    page.painted()
    last = page.run("return document.getElementById('graph').clientHeight") / 20 - 1
    page.click(0.1, last)
    assert page.crumbs[-2:] == ["step", "leaf"]
    assert page.crumbs[1] == "99,995 more"
    page.click(0.5, 1)
    assert page.crumbs[-1] == "step"
    page.keys(Keys.ESCAPE)
    page.search("leaf")
    assert page.text("matched") == "30.0 % in 1 function"
    page.choose("inverted", "yes")
    page.run("document.getElementById('graph').scrollTop = 1e9")
    page.painted()
    page.click(0.9, last)
    assert page.crumbs[-1] == "over", "the outermost caller of leaf"


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
    assert page.text("tip").endswith("Zoom in to see its callers.")
    page.click(0.001, last)
    assert page.run("return document.getElementById('graph').scrollHeight") > depth, "a zoom goes on from there"


def test_50_000_stacks_are_a_few_megabytes_and_work(open_page: OpenPage) -> None:
    random = Random(7)
    functions = [frame(f"function_{i}", f"/srv/module_{i % 60}.py", i, i) for i in range(1, 3000)]
    stacks = [()]
    recording = Recording()
    while len(stacks) < 50_000:
        stack = (*random.choice(stacks[-300:] if random.random() < 0.5 else stacks)[-60:], random.choice(functions))
        stacks.append(stack)
        recording.seen.append(Seen(stack, random.randint(1_000, MS)))
    html = render(recording.profile(), "app.py", account())
    assert len(html.encode()) < 4_000_000
    page = open_page(html)
    assert page.text("top-title").startswith("Top 50 of ")
    page.click(0.01, 1)
    assert len(page.crumbs) == 2
    for choice in (("inverted", "yes"), ("merge", "line"), ("root", "bottom")):
        page.choose(*choice)
    assert page.text("selected").startswith("alltime ")


@pytest.mark.parametrize("pixel_ratio", [1, 1.5, 2])
def test_sharp_on_every_screen(open_page: OpenPage, pixel_ratio: float) -> None:
    """The canvas has as many pixels as the screen has behind it, and pointers still hit what they point at."""
    recording = Recording()
    recording.add("main left", 500)
    recording.add("main right", 400)
    page = open_page(recording, pixel_ratio=pixel_ratio)
    page.painted()
    size = page.run(
        "const c = document.querySelector('#graph canvas'); return [c.width, c.height, c.clientWidth, c.clientHeight]"
    )
    assert size[:2] == [round(size[2] * pixel_ratio), round(size[3] * pixel_ratio)]
    page.search("right")
    assert page.pixel(0.7, 2) == page.colour("--match")
    assert page.pixel(0.3, 2) == page.colour("--dimmed")
    assert page.pixel(0.5, 5) == page.colour("--paper")
    page.click(0.7, 2)
    assert page.crumbs == ["all", "main", "right"]


@pytest.mark.parametrize("pixel_ratio", [1, 1.25, 1.5])
def test_graph_is_as_high_as_its_levels(open_page: OpenPage, pixel_ratio: float) -> None:
    """Up to a part of the window: what fits needs no scroll bar, what does not can be scrolled."""
    recording = Recording()
    recording.add(" ".join(f"f{i}" for i in range(11)), 10)
    box = "const g = document.getElementById('graph'); return [g.clientHeight, g.scrollHeight]"
    assert open_page(recording, pixel_ratio=pixel_ratio).run(box) == [240, 240]
    recording.add(" ".join(f"g{i}" for i in range(99)), 10)
    height, content = open_page(recording, pixel_ratio=pixel_ratio).run(box)
    assert height < content == 2000


def luminance(colour: tuple[int, int, int]) -> float:
    """Relative luminance by WCAG 2.2."""
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_everything_is_legible(open_page: OpenPage, dark: bool) -> None:
    """4.5:1 (WCAG 2.2 AA) for words on frames of every hue, and for all words around them, in both schemes."""
    recording = Recording()
    folders = ("/srv", "/usr/lib/python3.13", "/venv/lib/python3.13/site-packages")
    for i in range(90):
        stack = (frame("main"), frame(f"f{i}", f"{folders[i % 3]}/package_{i}/module.py", 1, 1))
        recording.seen.append(Seen(stack, MS))
    page = open_page(recording, dark=dark)
    fills = {page.pixel((i + 0.5) / 90, 2) for i in range(90)}
    assert len(fills) > 20
    for fill in fills:
        for ink in ("--frame-text", "--frame-faint"):
            assert contrast(fill, page.colour(ink)) >= 4.5, (fill, ink)
    for ink, behind in (
        ("--text", "--paper"),
        ("--text", "--sheet"),
        ("--text", "--accent-soft"),
        ("--faint", "--paper"),
        ("--faint", "--sheet"),
        ("--faint", "--accent-soft"),
        ("--accent", "--paper"),
        ("--accent", "--accent-soft"),
        ("--warn", "--sheet"),
        ("--match-text", "--match"),
        ("--frame-text", "--dimmed"),
        ("--frame-faint", "--dimmed"),
        ("--frame-text", "--ancestor"),
        ("--frame-faint", "--ancestor"),
    ):
        assert contrast(page.colour(ink), page.colour(behind)) >= 4.5, (ink, behind)
    paper = luminance(page.colour("--paper"))
    assert paper < 0.05 if dark else paper > 0.9


def test_narrow_window_needs_no_sideways_scrolling(open_page: OpenPage) -> None:
    page = open_page(random_recording(3))
    metrics = {"width": 400, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.painted()
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
