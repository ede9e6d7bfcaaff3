"""Zoom, hover, keys, search, threads and states: what the page then shows is counted again from what was seen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from flame_page import Page
from html_profiles import Recording, Seen, random_recording
from selenium.webdriver.common.keys import Keys

from weft.profile.names import short_file
from weft.sample import Frame, FrameKind, State

OpenPage = Callable[..., Page]
Call = tuple[str, str]  # function and place, as the table shows them


@pytest.fixture
def small() -> Recording:
    """all: main 100 % -> load 60 % (parse 50 %), save 40 %; each with time of its own."""
    recording = Recording(thread_names=("MainThread", "worker-1"))
    recording.add("main load parse", 500)
    recording.add("main load", 100)
    recording.add("main save", 400, thread=2)
    recording.add("main wait", 3000, state=State.BLOCKED)
    return recording


def by_function(frame: Frame) -> Call:
    return frame.function, f"{short_file(frame.file)}:{frame.first_line}" if frame.first_line else short_file(
        frame.file
    )


def by_line(frame: Frame) -> Call:
    return frame.function, f"{short_file(frame.file)}:{frame.line}" if frame.line else short_file(frame.file)


def truth(seen: Iterable[Seen], call_of: Callable[[Frame], Call]) -> dict[Call, tuple[float, float]]:
    """Percent of self and total time of each call, recursion counted once."""
    own: Counter[Call] = Counter()
    total: Counter[Call] = Counter()
    whole = 0
    for one in seen:
        whole += one.weight_ns
        own[call_of(one.stack[-1])] += one.weight_ns
        total.update(dict.fromkeys({call_of(frame) for frame in one.stack}, one.weight_ns))
    return {call: (100 * own[call] / whole, 100 * total[call] / whole) for call in total}


def same(page: Page, expected: dict[Call, tuple[float, float]]) -> None:
    shown = {(name, place): (own, total) for name, place, own, total in page.rows}
    assert shown.keys() == expected.keys()
    for call, values in expected.items():
        assert shown[call] == pytest.approx(values, abs=0.051), call


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_table_is_true(open_page: OpenPage, seed: int) -> None:
    """Random stacks, with recursion and with equal names in several files, in every cut that the page offers."""
    recording = random_recording(seed)
    page = open_page(recording)
    same(page, truth(recording.chosen(), by_function))
    page.choose("inverted", "yes")
    same(page, truth(recording.chosen(), by_function))
    page.toggle_state(State.BLOCKED)
    same(page, truth(recording.chosen(states=State), by_function))
    page.toggle_state(State.RUNNING)
    same(page, truth(recording.chosen(states=(State.GIL, State.BLOCKED)), by_function))
    page.only_thread("worker-2")
    page.toggle_state(State.RUNNING)
    same(page, truth(recording.chosen(threads=[3], states=State), by_function))


def test_lines_are_told_apart_or_not(open_page: OpenPage) -> None:
    recording = Recording()
    for line, weight in ((11, 300), (12, 700)):
        stack = (Frame(FrameKind.PYTHON, "main", "/srv/app.py", line, 10),)
        recording.seen.append(Seen(stack, weight * 1_000_000))
    page = open_page(recording)
    assert page.rows == [("main", "app.py:10", 100.0, 100.0)]
    page.choose("merge", "line")
    assert page.rows == [("main", "app.py:12", 70.0, 70.0), ("main", "app.py:11", 30.0, 30.0)]
    page.click(0.1, 1)
    assert "app.py:12" in page.text("selected"), "the heaviest lies on the left"
    page.keys(Keys.ESCAPE)
    page.choose("merge", "function")
    page.click(0.9, 1)
    assert "app.py:10" in page.text("selected")


def test_click_zooms_and_ancestors_escape_and_crumbs_zoom_out(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.click(0.3, 2)
    assert page.crumbs == ["all", "main", "load"]
    page.click(0.9, 3)  # parse is 5/6 of load, so not there: the rest is load's own time
    assert page.crumbs == ["all", "main", "load"]
    page.click(0.8, 3)
    assert page.crumbs == ["all", "main", "load", "parse"]
    page.click(0.99, 1)  # an ancestor has the whole width
    assert page.crumbs == ["all", "main"]
    page.click(0.7, 2)
    assert page.crumbs == ["all", "main", "save"]
    page.browser.find_element("css selector", "#crumbs button").click()
    assert page.crumbs == ["all"]
    page.click(0.3, 3)
    page.keys(Keys.ESCAPE)
    assert page.crumbs == ["all"]


def test_root_at_the_bottom_is_the_same_upside_down(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.choose("root", "bottom")
    levels = page.run("return document.getElementById('graph').clientHeight") / 20
    page.click(0.3, levels - 3)
    assert page.crumbs == ["all", "main", "load"]
    page.focus_graph()
    page.keys(Keys.ARROW_UP)
    assert page.text("selected").startswith("parse")


def test_tooltip_tells_self_total_and_samples(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.point(0.3, 2)
    words = page.browser.find_element("id", "tip").text.replace("\u00a0", " ").splitlines()
    assert words == ["load", "/srv/app.py:1", "total 600 ms (60.0 %)", "self 100 ms (10.0 %)", "600 samples"]
    page.click(0.3, 2)
    page.point(0.3, 3)
    words = page.browser.find_element("id", "tip").text.replace("\u00a0", " ").splitlines()
    assert "of the zoomed frame 83.3 %" in words
    page.point(0.95, 3)
    assert not page.browser.find_element("id", "tip").is_displayed(), "where there is no frame there is no tooltip"


def test_callers(open_page: OpenPage) -> None:
    """The innermost frames come first, the heaviest on the left, each with those who called it."""
    recording = Recording()
    recording.add("main a work", 300)
    recording.add("main b work", 500)
    recording.add("main b", 200)
    page = open_page(recording)
    page.choose("inverted", "yes")
    page.point(0.5, 1)
    assert page.text("tip") == "work/srv/app.py:1time 800 ms (80.0 %)800 samples"
    page.click(0.6, 2)  # b is 5/8 of work
    assert page.crumbs == ["all", "work", "a"]
    page.keys(Keys.ESCAPE)
    page.click(0.3, 3)
    assert page.crumbs == ["all", "work", "b", "main"]


def test_keys(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.focus_graph()
    told = []
    for key in (Keys.DOWN, Keys.DOWN, Keys.RIGHT, Keys.RIGHT, Keys.LEFT, Keys.DOWN, Keys.DOWN, Keys.UP, Keys.HOME):
        page.keys(key)
        told.append(page.run("return document.querySelector('#selected .name').textContent"))
    assert told == ["main", "load", "save", "save", "load", "parse", "parse", "load", "all"]
    page.keys(Keys.DOWN, Keys.DOWN, Keys.ENTER)
    assert page.crumbs == ["all", "main", "load"]
    page.keys(Keys.UP)
    assert page.text("selected").startswith("main"), "callers of the zoomed frame can be reached"
    page.keys(Keys.DOWN, Keys.DOWN)
    assert page.text("selected").startswith("parse")
    page.keys(Keys.ESCAPE)
    assert page.crumbs == ["all"]
    page.keys(Keys.DOWN, Keys.DOWN, Keys.RIGHT, Keys.ENTER, Keys.UP, Keys.DOWN)
    assert page.text("selected").startswith("save"), "and from them the way leads back, not to a heavier frame beside"
    page.keys(Keys.LEFT)
    assert page.text("selected").startswith("save"), "which is out of sight"


def test_search_keys(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    focused = "return document.activeElement.id"
    page.control("f")
    assert page.run(focused) == "search"
    page.keys(*"load", Keys.ENTER)
    assert page.run(focused) == "graph"
    page.keys("/")
    assert page.run(focused) == "search"
    page.keys("/")
    assert page.run("return document.getElementById('search').value") == "/", "a slash can be searched for"
    page.keys(Keys.ESCAPE)
    assert (page.run("return document.getElementById('search').value"), page.marked) == ("", set())


@pytest.mark.parametrize(
    ("text", "is_pattern", "expected"),
    [
        ("RUN", False, r"run"),
        ("<lambda>", False, r"<lambda>"),
        ("c.get", False, r"c\.get"),
        ("^(run|load) ", True, r"^(run|load) "),
        ("site-packages/", False, r"site-packages/"),
        ("decoder.py:20", False, r"decoder\.py:20"),
        ("run json/decoder.py:10", False, r"run json/decoder\.py:10"),
        ("no such thing", False, r"no such thing"),
    ],
)
def test_search_share_is_true(open_page: OpenPage, text: str, is_pattern: bool, expected: str) -> None:
    """The share of time whose stack has a match anywhere, whichever way the tree goes."""
    recording = random_recording(5)
    page = open_page(recording)
    if is_pattern:
        page.browser.find_element("id", "pattern").click()
    page.search(text)
    pattern = re.compile(expected, re.IGNORECASE)

    def matches(frame: Frame) -> bool:
        name, place = by_function(frame)
        return bool(pattern.search(f"{name} {place}") or pattern.search(f"{frame.file}:{frame.first_line}"))

    seen = list(recording.chosen())
    whole = sum(one.weight_ns for one in seen)
    found = sum(one.weight_ns for one in seen if any(map(matches, one.stack)))
    calls = {(frame.file, *by_function(frame)) for one in recording.seen for frame in one.stack if matches(frame)}
    share, count = re.fullmatch(r"([\d.]+) % in (\d+) functions?", page.text("matched")).groups()  # type: ignore[union-attr]
    assert float(share) == pytest.approx(100 * found / whole, abs=0.051)
    assert int(count) == len(calls)
    page.choose("inverted", "yes")
    assert float(page.text("matched").split()[0]) == float(share)


def test_search_colours_matches_and_nothing_else(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    plain = page.pixel(0.3, 2)
    page.search("load")
    assert page.pixel(0.3, 2) == page.colour("--match") != plain
    assert page.pixel(0.8, 2) == page.colour("--dimmed")
    assert page.marked == {"load"}
    assert page.text("matched") == "60.0 % in 1 function"
    page.keys(Keys.ESCAPE)
    assert page.pixel(0.3, 2) == plain
    assert page.text("matched") == ""


def test_bad_pattern_is_said_and_finds_nothing(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.browser.find_element("id", "pattern").click()
    page.search("load(")
    assert page.text("matched") == "Not a regular expression"
    assert page.marked == set()
    page.keys(")")
    assert page.marked == {"load"}


def test_table_searches_for_its_function(open_page: OpenPage) -> None:
    """Of two functions with one name, only that of the row."""
    recording = random_recording(6)
    page = open_page(recording)
    place = page.rows[0][1]
    page.browser.find_element("css selector", "#top tbody button").click()
    matched = page.run("return [...document.querySelectorAll('#top tr.match td:nth-child(4)')].map(c => c.textContent)")
    assert matched == [place]


def test_threads(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.only_thread("worker-1")
    assert [row[0] for row in page.rows] == ["save", "main"]
    assert "400 ms (100 %)" in page.text("selected")
    assert page.browser.find_element("css selector", "#threads summary").text.startswith("worker-1 (4243)")
    page.browser.find_element("css selector", "#threads summary").click()
    page.browser.find_element("id", "every-thread").click()
    assert "1.00 s (100 %)" in page.text("selected")


def test_blocked_time_is_shown_on_request(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    assert "wait" not in [row[0] for row in page.rows]
    page.toggle_state(State.BLOCKED)
    assert page.rows[0] == ("wait", "app.py:1", 75.0, 75.0)
    page = open_page(small, idle=True)
    assert page.rows[0] == ("wait", "app.py:1", 75.0, 75.0)


def test_zoom_stays_where_it_was_when_threads_change(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.click(0.3, 3)
    assert page.crumbs == ["all", "main", "load", "parse"]
    page.toggle_state(State.BLOCKED)
    assert page.crumbs == ["all", "main", "load", "parse"]
    page.only_thread("worker-1")
    assert page.crumbs == ["all", "main"], "as far as it still exists"


def test_time_without_a_python_frame_is_a_frame_of_its_own(open_page: OpenPage, small: Recording) -> None:
    small.seen.append(Seen((), 1_000_000_000))
    page = open_page(small)
    assert page.rows[0] == ("[no Python frame]", "", 50.0, 50.0)
