"""Zoom, search, filters and the table: what the page then shows is counted again from what was seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from random import Random

import pytest
from report_page import Page
from report_recordings import MS, Key, Recording, Seen, by_function, by_line, costs, frame, random_recording

from weft.profile.names import short_file
from weft.sample import Frame, FrameFlag, FrameKind, State

OpenPage = Callable[..., Page]


@pytest.fixture
def small() -> Recording:
    """all: main 100 % -> load 60 % (parse 50 %), save 40 %; each with time of its own."""
    recording = Recording(thread_names=("MainThread", "worker-1"))
    recording.add("main load parse", 500)
    recording.add("main load", 100)
    recording.add("main save", 400, thread=2)
    recording.add("main wait", 3000, state=State.BLOCKED)
    return recording


def same(page: Page, expected: dict[Key, tuple[float, float]]) -> None:
    shown = page.rows
    keys = {(name, f"{file}:{line}" if line else file): values for (name, file, line), values in expected.items()}
    assert shown.keys() == keys.keys()
    for key, values in keys.items():
        assert shown[key] == pytest.approx(values, abs=0.051), key


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_table_is_true(open_page: OpenPage, seed: int) -> None:
    """Random stacks, with recursion and with equal names in several files, in every cut that the page offers."""
    recording = random_recording(seed)
    page = open_page(recording)
    same(page, costs(recording.chosen()))
    page.toggle_state(State.BLOCKED)
    same(page, costs(recording.chosen(states=State)))
    page.toggle_state(State.RUNNING)
    same(page, costs(recording.chosen(states=(State.GIL, State.BLOCKED))))
    page.only_thread("worker-2")
    page.toggle_state(State.RUNNING)
    same(page, costs(recording.chosen(threads=[3], states=State)))
    page.choose("merge", "line")
    same(page, costs(recording.chosen(threads=[3], states=State), by_line))


def test_a_range_of_time_filters_all_views(open_page: OpenPage) -> None:
    """GIVEN a second of one function, then a second of another WHEN the last 3/4 are brushed THEN 1/3 and 2/3 stay."""
    recording = Recording()
    for name in ("first", "second"):
        for _ in range(100):
            recording.add(f"main {name}", 10)
    page = open_page(recording)
    page.drag("#overview", 0.25, 1.0)
    assert page.text("#selected").startswith("alltotal 1.50 s (100 %)")
    assert page.text("#range span") == "500 ms to 2.00 s"
    rows = page.rows
    assert rows["first", "/srv/app.py:1"] == pytest.approx((33.3, 33.3), abs=0.15)
    assert rows["second", "/srv/app.py:1"] == pytest.approx((66.7, 66.7), abs=0.15)
    page.view("timeline")
    page.drag("#timeline canvas", 0.75, 1.0, y=0.2)
    assert page.rows.keys() == {("main", "/srv/app.py:1"), ("second", "/srv/app.py:1")}
    page.keys("Escape")
    assert page.find("#range").is_hidden()
    assert page.rows["first", "/srv/app.py:1"] == (50.0, 50.0)
    page.find("#overview").focus()
    for _ in range(25):  # each step is 2 % of the recording
        page.keys("[")
    assert page.text("#range span") == "1.00 s to 2.00 s"


def test_runs_without_time_count_as_samples_in_any_range(open_page: OpenPage) -> None:
    """GIVEN runs of 0 ns, as kernels that count coarsely give WHEN a range is brushed THEN all shares are numbers."""
    recording = Recording()
    for _ in range(100):
        recording.add("main first", 10)
        recording.seen.append(Seen((frame("main", line=10, first_line=1), frame("none")), 0))
    page = open_page(recording)
    page.drag("#overview", 0.253, 0.753)  # between two runs
    assert page.text("#selected").startswith("alltotal 500 ms (100 %)550 samples")
    page.search("first")
    assert page.text("#matched") == "100 % in 1 function"


def test_lines_of_a_function(open_page: OpenPage) -> None:
    recording = Recording()
    for line, weight in ((11, 300), (12, 700)):
        recording.seen.append(Seen((frame("main", line=line, first_line=10),), weight * MS))
    page = open_page(recording)
    assert page.rows == {("main", "/srv/app.py:10"): (100.0, 100.0)}
    page.page.click("#top button.lines")
    assert page.texts("#top tr.line") == ["700 ms 70.0 %700 ms 70.0 %line 12", "300 ms 30.0 %300 ms 30.0 %line 11"]
    page.view("flame")
    page.choose("merge", "line")
    page.click(0.1, 1)
    assert "app.py:12" in page.text("#selected"), "the heaviest lies on the left"


def test_the_table_is_sorted_by_any_column(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.view("functions")

    def names() -> list[str]:
        return page.texts("#top tbody .name")

    assert names() == ["parse", "save", "load", "main"]
    page.page.click("[data-sort=total]")
    assert names() == ["main", "load", "parse", "save"]
    page.page.click("[data-sort=name]")
    assert names() == ["load", "main", "parse", "save"]
    assert page.find("th[aria-sort=ascending]").text_content() == "Function"


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
    page.page.click("#crumbs button >> nth=0")
    assert page.crumbs == ["all"]
    page.click(0.3, 3)
    page.keys("Escape")
    assert page.crumbs == ["all"]


def test_wheel_zooms_at_the_pointer_and_a_drag_pans(open_page: OpenPage, small: Recording) -> None:
    """Zoomed in at the border of load (60 %) and save, that border stays under the pointer; a drag moves it."""
    page = open_page(small)
    page.point(0.6, 2)
    page.page.keyboard.down("Control")
    for _ in range(20):
        page.page.mouse.wheel(0, -100)
    page.page.keyboard.up("Control")
    page.point(0.58, 2)
    assert page.text("#tip .name") == "load"
    page.point(0.62, 2)
    assert page.text("#tip .name") == "save"
    page.drag("#graph", 0.5, 0.9, y=0.3)
    assert page.crumbs == ["all"], "what ends a drag is no click"
    page.point(0.9, 2)
    assert page.text("#tip .name") == "load"


def test_root_at_the_bottom_is_the_same_upside_down(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.choose("root", "bottom")
    levels = page.run("return document.getElementById('graph').clientHeight") / 20
    page.click(0.3, levels - 3)
    assert page.crumbs == ["all", "main", "load"]
    page.find("#graph").focus()
    page.keys("ArrowUp")
    assert page.text("#selected").startswith("parse")


def test_tooltip_tells_self_total_kind_and_samples(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.point(0.3, 2)
    words = page.texts("#tip > *")
    assert words == ["load", "/srv/app.py:1", "total 600 ms (60.0 %)", "self 100 ms (10.0 %)", "600 samples", "Python"]
    page.click(0.3, 2)
    page.point(0.3, 3)
    assert "of the zoomed frame 83.3 %" in page.texts("#tip > *")
    page.point(0.95, 3)
    assert page.find("#tip").is_hidden(), "where there is no frame there is no tooltip"


def test_callers(open_page: OpenPage) -> None:
    """The innermost frames come first, the heaviest on the left, each with those who called it."""
    recording = Recording()
    recording.add("main a work", 300)
    recording.add("main b work", 500)
    recording.add("main b", 200)
    page = open_page(recording)
    page.choose("inverted", "yes")
    page.point(0.5, 1)
    assert page.texts("#tip > *")[2] == "time 800 ms (80.0 %)"
    page.click(0.6, 2)  # b is 5/8 of work
    assert page.crumbs == ["all", "work", "a"]
    page.keys("Escape")
    page.click(0.3, 3)
    assert page.crumbs == ["all", "work", "b", "main"]


def test_sandwich(open_page: OpenPage) -> None:
    """Callers and callees of one function, whoever calls it; recursion counts once."""
    recording = Recording()
    recording.add("main a work deep", 300)
    recording.add("main b work work other", 500)
    recording.add("main b", 200)
    page = open_page(recording)
    page.click(0.4, 3)
    page.page.click("text=Callers and callees")
    assert page.texts("#sandwich .title > *")[0::2] == ["work", "self 0 s (0 %), total 800 ms (80.0 %)"]
    callers, callees = "#sandwich .graph >> nth=0", "#sandwich .graph >> nth=1"
    page.point(0.3, 1, callees)
    assert page.text("#tip .name") == "work"
    page.point(0.3, 2, callees)
    assert page.texts("#tip > *")[:3] == ["work", "/srv/app.py:1", "total 500 ms (50.0 %)"], "it calls itself"
    page.point(0.9, 2, callees)
    assert page.texts("#tip > *")[:3] == ["deep", "/srv/app.py:1", "total 300 ms (30.0 %)"]
    area = page.find(callers).bounding_box()
    assert area
    from_below = area["height"] / 20 - 1
    page.point(0.3, from_below - 2, callers)
    assert page.texts("#tip > *")[:3] == ["b", "/srv/app.py:1", "time 500 ms (50.0 %)"]
    page.point(0.9, from_below - 2, callers)
    assert page.texts("#tip > *")[:3] == ["a", "/srv/app.py:1", "time 300 ms (30.0 %)"]


def test_keys(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.find("#graph").focus()
    told = []
    for key in ("Down", "Down", "Right", "Right", "Left", "Down", "Down", "Up"):
        page.keys(f"Arrow{key}")
        told.append(page.text("#selected .name"))
    page.keys("Home")
    assert [*told, page.text("#selected .name")] == [
        "main", "load", "save", "save", "load", "parse", "parse", "load", "all",
    ]  # fmt: skip
    page.keys("ArrowDown", "ArrowDown", "Enter")
    assert page.crumbs == ["all", "main", "load"]
    page.keys("ArrowUp")
    assert page.text("#selected").startswith("main"), "callers of the zoomed frame can be reached"
    page.keys("Escape", "3")
    assert page.find("#view-sandwich").is_visible()
    page.keys("1", "/", "l", "o", "a", "d", "Enter")
    assert page.run("return document.activeElement.id") == "graph"
    page.keys("Control+f", "Escape")
    assert page.run("return document.getElementById('search').value") == ""


def test_focus_is_in_sight(open_page: OpenPage, small: Recording) -> None:
    """Everything that Tab reaches has an outline, and nothing is reached that is hidden."""
    page = open_page(small)
    seen = set()
    for _ in range(40):
        page.keys("Tab")
        told = page.run(
            """const at = document.activeElement, style = getComputedStyle(at.matches("[type=radio]")
              ? at.nextElementSibling : at);
            return [at.id || at.className || at.tagName, style.outlineStyle, at.getClientRects().length]"""
        )
        if told[0] == "BODY":
            break
        seen.add(told[0])
        assert told[1] != "none", told
        assert told[2] > 0, told
    assert {"tab-flame", "search", "overview", "graph"} <= seen


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RUN", r"run"),
        ("<lambda>", r"<lambda>"),
        ("c.get", r"c\.get"),
        ("/^(run|load) /", r"^(run|load) "),
        ("site-packages/", r"site-packages/"),
        ("run json/decoder.py:10", r"run json/decoder\.py:10"),
        ("no such thing", r"no such thing"),
    ],
)
def test_search_share_is_true(open_page: OpenPage, text: str, expected: str) -> None:
    """The share of time whose stack has a match anywhere, whichever way the tree goes."""
    recording = random_recording(5)
    page = open_page(recording)
    page.search(text)
    pattern = re.compile(expected, re.IGNORECASE)

    def matches(one: Frame) -> bool:
        place = f"{short_file(one.file)}:{one.first_line}"
        return bool(pattern.search(f"{one.function} {place}") or pattern.search(f"{one.file}:{one.first_line}"))

    told_truly(page, list(recording.chosen()), matches)


def test_search_for_a_line(open_page: OpenPage) -> None:
    """`file.py:42` finds the functions of which that line was seen."""
    recording = random_recording(6)
    page = open_page(recording)
    page.search("decoder.py:21")
    functions = {
        by_function(one)
        for seen in recording.seen
        for one in seen.stack
        if one.file.endswith("/decoder.py") and one.line == 21
    }
    assert functions, "the recording has that line"
    told_truly(page, list(recording.chosen()), lambda one: by_function(one) in functions)


def told_truly(page: Page, seen: Iterable[Seen], matches: Callable[[Frame], bool]) -> None:
    seen = list(seen)
    whole = sum(one.weight_ns for one in seen)
    found = sum(one.weight_ns for one in seen if any(map(matches, one.stack)))
    told = re.fullmatch(r"([\d.]+) % in (\d+) functions?", page.text("#matched"))
    assert told
    assert float(told[1]) == pytest.approx(100 * found / whole, abs=0.051)
    assert {name for name, _ in page.rows} == {f.function for one in seen for f in one.stack if matches(f)}
    page.view("flame")
    page.choose("inverted", "yes")
    assert page.text("#matched") == told[0].replace("\u00a0", " ")


def test_a_broken_pattern_is_told(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.search("/(/")
    assert page.text("#matched") == "Not a regular expression"
    assert page.find("#search").get_attribute("aria-invalid") == "true"


NATIVE = FrameKind.NATIVE
SEAM = FrameFlag.PROVEN | FrameFlag.MACHINERY


@pytest.fixture
def woven() -> Recording:
    """Python that sorts in C, which calls Python back: two seams, one of them counted."""
    eval_loop = Frame(NATIVE, "_PyEval_EvalFrameDefault", "ceval.c", 1, flags=SEAM, module="/usr/bin/python3.13")
    other_loop = Frame(NATIVE, "_PyEval_Vector", "ceval.c", 9, flags=FrameFlag.COUNTED, module="/usr/bin/python3.13")
    sort = Frame(NATIVE, "list_sort", "listobject.c", 5, module="/usr/lib/libpython3.13.so.1.0")
    blas = Frame(NATIVE, "dgemm_kernel", "", 0, module="/usr/lib/libopenblas.so.0")
    rust = Frame(NATIVE, "regex::find", "lib.rs", 7, module="/srv/_regex.so")
    kernel = Frame(FrameKind.KERNEL, "do_read", "[kernel]", 0)
    main, key = frame("main", line=3, first_line=1), frame("key", line=9, first_line=8)
    recording = Recording()
    recording.seen = [
        Seen((eval_loop, main, sort, other_loop, key), 400 * MS),
        Seen((eval_loop, main, blas), 300 * MS),
        Seen((eval_loop, main, rust), 200 * MS),
        Seen((eval_loop, main, kernel), 100 * MS),
    ]
    return recording


@pytest.fixture
def open_woven(open_page: OpenPage, woven: Recording) -> Page:
    return open_page(woven)


def test_native_code_and_internals_can_be_left_out(open_woven: Page) -> None:
    page = open_woven
    names = {"main", "list_sort", "key", "dgemm_kernel", "regex::find", "do_read"}
    assert {name for name, _ in page.rows} == names
    assert page.texts("#legend li")[:5] == [
        "Python40.0 %", "C, C++30.0 %", "Rust20.0 %", "kernel10.0 %", "seam proven3",
    ]  # fmt: skip
    page.toggle("internals")
    assert {name for name, _ in page.rows} == names | {"_PyEval_EvalFrameDefault", "_PyEval_Vector"}
    page.toggle("internals")
    page.toggle("native")
    rows = page.rows
    assert {name: values for (name, _), values in rows.items()} == {"main": (60.0, 100.0), "key": (40.0, 40.0)}


def test_each_seam_shows_its_proof(open_woven: Page) -> None:
    page = open_woven
    page.point(0.2, 1)
    assert page.texts("#tip > *")[-1] == "seam proven"
    page.point(0.2, 3)
    assert (page.text("#tip .name"), page.texts("#tip > *")[-1]) == ("key", "seam counted")
    page.point(0.2, 2)
    assert "seam" not in page.text("#tip")
    assert page.pixel("#graph canvas", 0.0005, 30) == page.colour("--proven")
    assert page.pixel("#graph canvas", 0.0005, 63.5) == page.colour("--counted")


def test_modules_are_folded(open_page: OpenPage) -> None:
    """GIVEN a package whose functions call each other WHEN it is folded THEN it is one frame wherever it is entered."""
    files = ("/v/lib/python3.13/site-packages/pkg/a.py", "/v/lib/python3.13/site-packages/pkg/b.py")
    inner = (frame("outer", files[0], 2, 1), frame("inner", files[1], 4, 3))
    recording = Recording()
    main, back = frame("main", line=3, first_line=1), frame("back", line=9, first_line=8)
    recording.seen = [Seen((main, *inner), 600 * MS), Seen((main, *inner, back, *inner), 400 * MS)]
    page = open_page(recording)
    page.fold("pkg")
    rows = {name: values for (name, _), values in page.rows.items()}
    assert rows == {"main": (0.0, 100.0), "pkg": (100.0, 100.0), "back": (0.0, 40.0)}
    page.view("flame")
    page.click(0.1, 4)
    assert page.crumbs == ["all", "main", "pkg", "back", "pkg"]
    page.page.click("text=Unfold module")
    assert ("inner", f"{files[1]}:3") in page.rows


def test_processes_and_threads_are_chosen(open_page: OpenPage) -> None:
    recording = Recording(pids=(100, 200), thread_names=("one", "two", "three"))
    for thread, name in enumerate(("a", "b", "c"), 1):
        recording.add(f"main {name}", 100 * thread, thread=thread)
    page = open_page(recording)
    page.open_menu("threads")
    page.page.click("button[aria-label='Only process 200']")
    page.close_menu()
    assert page.text("#threads summary") == "2 of 3 threads"
    assert {name: own for (name, _), (own, _) in page.rows.items()} == {"b": 40.0, "c": 60.0, "main": 0.0}


def test_a_link_shows_what_its_sender_saw(open_page: OpenPage) -> None:
    recording = random_recording(9)
    page = open_page(recording)
    page.only_thread("worker-1")
    page.toggle_state(State.BLOCKED)
    page.drag("#overview", 0.1, 0.6)
    page.choose("merge", "line")
    page.click(0.1, 2)
    page.search("/run|load/")
    link = page.run("return location.hash")
    seen = [page.crumbs, page.text("#matched"), page.text("#range span"), page.text("#selected"), page.rows]
    other = open_page(recording, fragment=link)
    assert [other.crumbs, other.text("#matched"), other.text("#range span"), other.text("#selected")] == seen[:4]
    assert other.rows == seen[4]
    assert other.run("return location.hash") == page.run("return location.hash")
    other.run("location.hash = 'view=timeline&threads=0'")
    other.page.wait_for_selector("#view-timeline:not([hidden])")
    assert other.text("#threads summary").startswith("MainThread")


@pytest.mark.parametrize(
    "fragment",
    ["#threads=99,x&states=-1", "#time=5-1&zoom=999999999", "#folded={&function=1e9", "#source=7.x&view=source"],
)
def test_a_link_that_makes_no_sense_breaks_nothing(open_page: OpenPage, fragment: str) -> None:
    page = open_page(random_recording(2, 20), fragment=fragment)
    page.view("flame")
    assert page.crumbs[0] == "all"


def test_random_zooms_keep_layers_inside_each_other(open_page: OpenPage) -> None:
    """Wherever one clicks, the crumbs lead from the root to the frame, as some stack that was seen does."""
    recording = random_recording(12)
    paths = {tuple(one.function for one in seen.stack[:n]) for seen in recording.chosen() for n in range(13)}
    page = open_page(recording)
    random = Random(3)
    for _ in range(25):
        page.click(random.random(), random.randrange(1, 6))
        crumbs = page.crumbs[1:]
        if "more" not in " ".join(crumbs):
            assert tuple(crumbs) in paths
        if random.random() < 0.4:
            page.keys("Escape")
