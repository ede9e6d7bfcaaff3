"""The graph itself: trees and layout against a plain count, colours, sizes, and what stays when the choice changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from report_page import Page
from report_recordings import MS, Recording, Seen, frame, random_recording

from weft.capture import Capture
from weft.profile.tables import View
from weft.report.html.content import content
from weft.report.html.page import inline
from weft.sample import Frame, FrameKind, State

OpenPage = Callable[..., Page]
Path_ = tuple[tuple[str, str, int], ...]

BUILD = """
const choice = { byLine, native: true, internals: false, folded: new Set(), states: new Set([0, 1, 2]), range: null };
const model = readModel(await unpack(data));
choice.threads = new Set(model.threads.keys());
const calls = mergeFrames(model, choice, () => "");
const whole = callTree(model, calls, select(model, choice));
const tree = inverted ? new CallerTree(whole, leaves(whole)) : whole;
const layout = layOut(tree);
const nodes = [...tree.parent.keys()];
const call = (i) => [calls.name[i], calls.file[i], calls.line[i]];
return {
  parent: [...tree.parent], total: [...tree.total], self: [...tree.self], ticks: [...tree.ticks],
  call: [...tree.call].map((i) => i < 0 ? null : call(i)),
  open: nodes.map((i) => tree.isOpen(i)),
  x: [...layout.x], depth: [...layout.depth], height: [...layout.height],
  hits: nodes.map((i) => nodeAt(layout, tree, layout.depth[i], layout.x[i] + tree.total[i] / 2)),
  found: nodes.map((i) => tree.find(tree.path(i).map((node) => tree.call[node]))),
};
"""


def build(chromium: Browser, path: Path, recording: Recording, *, by_line: bool, inverted: bool) -> dict[str, Any]:
    with Capture(recording.write(path / "x.weft")) as capture:
        data = content(capture, View(idle=True))
    scripts = {name: inline(name) for name in ("data.js", "tree.js", "layout.js")}  # tree.js brings model.js
    page = chromium.new_page()
    script = f"async ([data, byLine, inverted]) => {{ {' '.join(scripts.values())} {BUILD} }}"
    built = page.evaluate(script, [data, by_line, inverted])
    page.close()
    return dict(built)


def prefixes(
    seen: Iterable[Seen], *, by_line: bool, inverted: bool
) -> tuple[Counter[Path_], Counter[Path_], Counter[Path_]]:
    """Total and self time and samples of every path from the root."""
    total: Counter[Path_] = Counter()
    own: Counter[Path_] = Counter()
    ticks: Counter[Path_] = Counter()
    for one in seen:
        stack = one.stack[::-1] if inverted else one.stack
        path = tuple((f.function, f.file, f.line if by_line else f.first_line) for f in stack)
        own[path] += one.weight_ns
        for length in range(len(path) + 1):
            total[path[:length]] += one.weight_ns
            ticks[path[:length]] += one.ticks
    return total, own, ticks


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("by_line", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_trees_are_true(chromium: Browser, tmp_path: Path, seed: int, by_line: bool, inverted: bool) -> None:
    """Every path that was seen is a node with its time, and there are no others."""
    recording = random_recording(seed, 150)
    built = build(chromium, tmp_path, recording, by_line=by_line, inverted=inverted)
    total, own, ticks = prefixes(recording.seen, by_line=by_line, inverted=inverted)
    paths: list[Path_] = [()]
    for node, parent in enumerate(built["parent"][1:], 1):
        paths.append((*paths[parent], tuple(built["call"][node])))
    closed = [path for path, is_open in zip(paths, built["open"], strict=True) if not is_open]
    assert len(set(paths)) == len(paths)
    assert dict(zip(paths, built["total"], strict=True)) == {path: total[path] for path in paths}
    assert dict(zip(paths, built["ticks"], strict=True)) == {path: ticks[path] for path in paths}
    assert {path: own[path] for path in closed} == {
        path: time for path, time, is_open in zip(paths, built["self"], built["open"], strict=True) if not is_open
    }
    missing = set(total) - set(paths)
    least = total[()] / 4000
    assert all(total[path] < least for path in missing) if inverted else not missing


@pytest.mark.parametrize("inverted", [False, True])
def test_layout_tiles(chromium: Browser, tmp_path: Path, inverted: bool) -> None:
    """Children lie inside their parent, side by side, the heaviest first; each node is found by its place."""
    built = build(chromium, tmp_path, random_recording(11, 300), by_line=True, inverted=inverted)
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(built["parent"]):
        if parent >= 0:
            children.setdefault(parent, []).append(node)
    for parent, nodes in children.items():
        nodes.sort(key=lambda node: built["x"][node])
        at = built["x"][parent]
        for node in nodes:
            assert built["x"][node] == at
            assert built["depth"][node] == built["depth"][parent] + 1
            at += built["total"][node]
        assert at <= built["x"][parent] + built["total"][parent]
        weights = [built["total"][node] for node in nodes]
        assert weights == sorted(weights, reverse=True)
        assert built["height"][parent] == 1 + max(built["height"][node] for node in nodes)
    everyone = list(range(len(built["parent"])))
    assert built["hits"] == everyone
    assert built["found"] == everyone


def test_callers_are_open_only_below_a_pixel(chromium: Browser, tmp_path: Path) -> None:
    """What the callers' tree leaves for later is narrower than a pixel, or the budget of one growth was used up."""
    built = build(chromium, tmp_path, random_recording(4), by_line=False, inverted=True)
    least = built["total"][0] / 4000
    assert all(total < least for total, is_open in zip(built["total"], built["open"], strict=True) if is_open)


@pytest.fixture
def small() -> Recording:
    """all: main 100 % -> load 60 % (parse 50 %), save 40 %; each with time of its own."""
    recording = Recording(thread_names=("MainThread", "worker-1"))
    recording.add("main load parse", 500)
    recording.add("main load", 100)
    recording.add("main save", 400, thread=2)
    recording.add("main wait", 3000, state=State.BLOCKED)
    return recording


def level(number: int) -> float:
    """Down in a level of the graph, away from any text."""
    return (number + 0.87) * 20


def test_search_colours_matches_and_nothing_else(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    canvas = "#graph canvas"
    plain = page.pixel(canvas, 0.3, level(2))
    page.search("load")
    assert page.pixel(canvas, 0.3, level(2)) == page.colour("--match") != plain
    assert page.pixel(canvas, 0.8, level(2)) == page.colour("--dimmed")
    assert page.text("#matched") == "60.0 % in 1 function"
    page.find("#search").focus()
    page.keys("Escape")
    assert page.pixel(canvas, 0.3, level(2)) == plain
    assert page.text("#matched") == ""


def test_blocked_time_is_shown_on_request(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    assert ("wait", "/srv/app.py:1") not in page.rows
    page.toggle_state(State.BLOCKED)
    assert page.rows["wait", "/srv/app.py:1"] == (75.0, 75.0)
    page = open_page(small, idle=True)
    assert page.rows["wait", "/srv/app.py:1"] == (75.0, 75.0)


def test_zoom_stays_where_it_was_when_threads_change(open_page: OpenPage, small: Recording) -> None:
    page = open_page(small)
    page.click(0.3, 3)
    assert page.crumbs == ["all", "main", "load", "parse"]
    page.toggle_state(State.BLOCKED)
    assert page.crumbs == ["all", "main", "load", "parse"]
    page.only_thread("worker-1")
    assert page.crumbs == ["all", "main"], "as far as it still exists"
    page.open_menu("threads")
    page.page.click("#every-thread")
    page.close_menu()
    assert page.text("#threads summary") == "All 2 threads"


def test_time_without_a_python_frame_is_a_frame_of_its_own(open_page: OpenPage, small: Recording) -> None:
    small.seen.append(Seen((), 1_000_000_000))
    page = open_page(small)
    assert page.rows["[no Python frame]", ""] == (50.0, 50.0)


@pytest.mark.parametrize("pixel_ratio", [1, 1.25, 1.5])
def test_graph_is_as_high_as_its_levels(open_page: OpenPage, pixel_ratio: float) -> None:
    """Up to a part of the window: what fits needs no scroll bar, what does not can be scrolled."""
    recording = Recording()
    recording.add(" ".join(f"f{i}" for i in range(11)), 10)
    box = "const g = document.getElementById('graph'); return [g.clientHeight, g.scrollHeight]"
    assert open_page(recording, pixel_ratio=pixel_ratio).run(box) == [240, 240]
    recording.add(" ".join(f"g{i}" for i in range(99)), 10)
    height, inside = open_page(recording, pixel_ratio=pixel_ratio).run(box)
    assert height < inside == 2000


@pytest.mark.parametrize("pixel_ratio", [1, 1.5, 2])
def test_matches_are_drawn_where_they_are_on_every_screen(open_page: OpenPage, pixel_ratio: float) -> None:
    recording = Recording()
    recording.add("main left", 500)
    recording.add("main right", 400)
    page = open_page(recording, pixel_ratio=pixel_ratio)
    page.search("right")
    canvas = "#graph canvas"
    assert page.pixel(canvas, 0.7, level(2)) == page.colour("--match")
    assert page.pixel(canvas, 0.3, level(2)) == page.colour("--dimmed")
    assert page.pixel(canvas, 0.5, level(5)) == page.colour("--paper")


@pytest.mark.parametrize("pixel_ratio", [1, 1.5, 2])
def test_what_moves_is_drawn_where_it_comes_to_rest(open_page: OpenPage, pixel_ratio: float) -> None:
    """GIVEN a zoom by wheel that has not come to rest WHEN it does THEN each box is where it was drawn meanwhile."""
    recording = Recording()
    for part in range(10):
        recording.add(f"main f{part} g{part}", 100)
    page = open_page(recording, pixel_ratio=pixel_ratio)
    page.search("f3")
    page.run(
        """window.rest = []; window.setTimeout = (callback) => window.rest.push(callback);
        const box = document.querySelector("#graph"), { left, top, width } = box.getBoundingClientRect();
        const place = { clientX: left + 0.3 * width, clientY: top + 30 };
        box.dispatchEvent(new WheelEvent("wheel", { deltaY: -250, ctrlKey: true, cancelable: true, ...place }));"""
    )
    places = [(x / 31, level(down)) for x in range(1, 31) for down in (1, 2, 4)]
    moving = [page.pixel("#graph canvas", *place) for place in places]
    page.run("for (const callback of window.rest) callback()")
    resting = [page.pixel("#graph canvas", *place) for place in places]
    assert page.colour("--match") in moving and page.colour("--dimmed") in moving and page.colour("--paper") in moving
    differing = [place for place, one, other in zip(places, moving, resting, strict=True) if one != other]
    assert len(differing) <= len(places) // 20, "but for edges, which are on whole pixels while it moves"


def linear(colour: tuple[int, int, int]) -> tuple[float, float, float]:
    """Red, green and blue from 0 to 1, as light adds up (WCAG 2.2)."""
    red, green, blue = (c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour)
    return red, green, blue


def luminance(colour: tuple[int, int, int]) -> float:
    """Relative luminance by WCAG 2.2."""
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def hue(colour: tuple[int, int, int]) -> float:
    """The hue in degrees, in OKLab (bottosson.github.io/posts/oklab)."""
    red, green, blue = linear(colour)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    medium = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    a = 1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short
    b = 0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short
    return math.degrees(math.atan2(b, a)) % 360


@pytest.mark.parametrize("dark", [False, True])
def test_kinds_are_told_by_their_hue(open_page: OpenPage, dark: bool) -> None:
    """GIVEN functions of many files of each kind THEN hues of two kinds are further apart than shades are."""
    native, count = FrameKind.NATIVE, 30
    kinds: list[Callable[[int], Frame]] = [
        lambda i: frame(f"f{i}", f"/srv/package_{i}/module.py", 1, 1),
        lambda i: Frame(native, f"c{i}", f"file_{i}.c", 1, module="/lib/x.so"),
        lambda i: Frame(native, f"r{i}", f"file_{i}.rs", 1, module="/lib/y.so"),
        lambda i: Frame(FrameKind.KERNEL, f"k{i}", f"[module_{i}]", 0),
        lambda i: Frame(FrameKind.CYTHON, f"y{i}", f"file_{i}.pyx", 1, module="/lib/z.so"),
    ]
    recording = Recording()
    for kind in kinds:  # each kind in a tree of its own, so that its boxes are in one place
        root = frame(f"root_{len(recording.seen) // count}")
        recording.seen += [Seen((frame("main"), root, kind(i)), MS) for i in range(count)]
    page = open_page(recording, dark=dark)
    whole = len(kinds) * count
    colours = [page.pixel("#graph canvas", (i + 0.5) / whole, level(3)) for i in range(whole)]
    ranges = [[*map(hue, colours[i : i + count])] for i in range(0, whole, count)]
    differing = [len({*map(round, hues)}) for hues in ranges]
    assert [each >= 3 for each in differing] == [True, True, True, False, True], "files differ; the kernel is one"
    for lower, upper in pairwise(sorted(ranges)):
        assert min(upper) - max(lower) > 15


@pytest.mark.parametrize("dark", [False, True])
def test_everything_is_legible(open_page: OpenPage, dark: bool) -> None:
    """4.5:1 (WCAG 2.2 AA) for words on frames of every kind and shade, and for all words around them."""
    recording = Recording()
    folders = ("/srv", "/usr/lib/python3.13", "/venv/lib/python3.13/site-packages")
    native = FrameKind.NATIVE
    for i in range(90):
        kinds = [
            frame(f"f{i}", f"{folders[i % 3]}/package_{i}/module.py", 1, 1),
            Frame(native, f"c{i}", f"file_{i}.c", 1, module="/lib/x.so"),
            Frame(native, f"r{i}", f"file_{i}.rs", 1, module="/lib/y.so"),
            Frame(native, f"i{i}", f"file_{i}.c", 1, module="/usr/lib/libpython3.13.so.1.0"),
            Frame(FrameKind.KERNEL, f"k{i}", f"[module_{i}]", 0),
            Frame(FrameKind.CYTHON, f"y{i}", f"file_{i}.pyx", 1, module="/lib/z.so"),
        ]
        recording.seen.append(Seen((frame("main"), kinds[i // 15]), MS))
    page = open_page(recording, dark=dark)
    fills = {page.pixel("#graph canvas", (i + 0.5) / 90, level(2)) for i in range(90)}
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
