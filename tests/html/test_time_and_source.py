"""The time line, the source view and pictures of the views."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from capture.builder import CaptureBuilder
from playwright.sync_api import Browser
from report_page import Page
from report_recordings import MS, Recording, Seen, frame

from weft.capture import Capture
from weft.profile.tables import View
from weft.report.html.content import content
from weft.report.html.page import inline
from weft.sample import State

OpenPage = Callable[..., Page]


@pytest.fixture
def phases() -> Recording:
    """MainThread runs a, then b, then waits for the GIL while worker-1, who has slept, runs c."""
    recording = Recording(thread_names=("MainThread", "worker-1"))
    recording.add("main a", 400)
    recording.add("main b", 200)
    recording.add("main b", 400, state=State.GIL)
    recording.add("work c", 600, thread=2, state=State.SLEEPING)
    recording.add("work c", 400, thread=2)
    recording.waits = [(1, 2, 2, 4, 400 * MS)]
    return recording


def test_time_line_shows_states_in_their_order(open_page: OpenPage, phases: Recording) -> None:
    """Each pixel of a track has the colour of what the thread did then."""
    page = open_page(phases, idle=True)
    page.view("timeline")
    gil, main = 22, 64  # where the tracks begin
    assert page.pixel("#timeline canvas", 0.3, main + 17 + 8) == page.colour("--running")
    assert page.pixel("#timeline canvas", 0.8, main + 17 + 8) == page.colour("--gil")
    assert page.pixel("#timeline canvas", 0.8, gil + 17 + 5) == page.colour("--gil"), "one thread waits"
    assert page.pixel("#timeline canvas", 0.3, gil + 17 + 5) != page.colour("--gil"), "none waits"
    assert page.texts("#waits tbody td") == ["400 ms", "b in MainThread (4242)", "c in worker-1 (4243)"]


def test_opened_tracks_show_stacks_in_the_order_of_time(open_page: OpenPage, phases: Recording) -> None:
    page = open_page(phases)
    page.view("timeline")
    area = page.find("#timeline").bounding_box()
    assert area
    first = area["y"] + 64 + 17 + 16 + 2  # the axis, the GIL's track, the name and the states of the busiest thread

    def under(x: float, level: int) -> list[str]:
        page.page.mouse.move(area["x"] + x * area["width"], first + 20 * level + 10)
        return page.texts("#tip > *")

    assert under(0.1, 0)[0] == under(0.5, 0)[0] == "main"
    assert (under(0.1, 1)[0], under(0.5, 1)[0]) == ("a", "b")
    assert under(0.1, 1)[-2:] == ["at 100 ms", "Running"]
    assert under(0.8, 1)[-1] == "Waiting for the GIL"
    page.page.mouse.click(area["x"] + 10, first - 26)
    assert under(0.1, 1)[0] != "a", "a click on the name has closed it"
    page.find("#timeline").focus()
    page.keys("Enter")
    assert under(0.1, 1)[0] == "a"


def test_deep_stacks_leave_all_tracks_in_sight(open_page: OpenPage) -> None:
    """GIVEN five threads, the busiest 300 levels deep THEN all are in sight until one asks for more of its levels."""
    recording = Recording(thread_names=("deep", "a", "b", "c", "d"))
    recording.add("main " + " ".join(f"f{level}" for level in range(299)), 500)
    for thread in range(2, 6):
        recording.add("work", 100, thread=thread)
    page = open_page(recording)
    page.view("timeline")

    def tracks() -> tuple[str, bool]:
        """The name of the deep one; whether all are in sight."""
        svg = ElementTree.fromstring(page.download("svg"))
        texts = [each.text or "" for each in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert len([text for text in texts if text.startswith("▸")]) == 4
        sizes = page.run("const box = document.querySelector('#timeline'); return [box.scrollHeight, box.clientHeight]")
        return next(text for text in texts if text.startswith("▾")), sizes[0] == sizes[1]

    name, in_sight = tracks()
    assert in_sight and re.fullmatch(r"▾ deep \(4242\)  \d\d of its 300 levels, click for more", name)
    page.find("#timeline").focus()
    page.keys("Enter")
    name, in_sight = tracks()
    assert not in_sight and name == "▾ deep (4242)  80 of its 300 levels"


def test_the_thread_that_holds_the_gil_is_shown(open_page: OpenPage, phases: Recording) -> None:
    """While one thread waits, the track below shows the colour of the thread it was known to wait for."""
    page = open_page(phases)
    page.view("timeline")
    holder = page.pixel("#timeline canvas", 0.8, 22 + 17 + 13)
    tracks = page.run("return document.querySelector('#timeline canvas').clientHeight")
    marks = {page.pixel("#timeline canvas", 1 / 1400, y) for y in range(64, tracks, 2)}
    assert holder in marks
    assert page.pixel("#timeline canvas", 0.3, 22 + 17 + 13) not in (holder, page.colour("--gil"))


def test_a_thread_of_another_process_does_not_hold_the_gil(open_page: OpenPage) -> None:
    """GIVEN a thread that waits for the GIL while only another process runs THEN its holder is not known."""
    recording = Recording(pids=(100, 200), thread_names=("waits", "runs"))
    recording.add("main", 1000, thread=1, state=State.GIL)
    recording.add("main", 1000, thread=2)
    page = open_page(recording)
    page.view("timeline")
    assert page.pixel("#timeline canvas", 0.5, 22 + 17 + 13) == page.colour("--line")


SOURCE = """\
def main():
    total = 0
    for item in load():
        total += parse(item) + check(item)  # é: two bytes
    return total
"""


@pytest.fixture
def read_me() -> Recording:
    """Line 4 has 90 % of the time: 60 % in parse(item), 20 % in check(item), 10 % of its own; line 3 the rest."""

    def at(line: int, column: int = 0, end: int = 0) -> tuple:
        return (frame("main", line=line, first_line=1, end_line=line, column=column, end_column=end),)

    recording = Recording(sources={"/srv/app.py": SOURCE})
    recording.seen = [
        Seen((*at(4, 18, 29), frame("parse", "/gone/parse.py", 2, 1)), 600 * MS),
        Seen((*at(4, 32, 43), frame("check", "/gone/check.py", 2, 1)), 200 * MS),
        Seen(at(4, 9, 43), 100 * MS),
        Seen(at(3, 17, 23), 100 * MS),
    ]
    return recording


def test_source_lines_have_their_heat(open_page: OpenPage, read_me: Recording) -> None:
    page = open_page(read_me)
    page.point(0.1, 1)
    page.page.mouse.down()
    page.page.mouse.up()
    page.page.click("text=Source >> nth=-1")
    assert page.find("#files").input_value() != ""
    assert [line.rstrip() for line in page.texts("#code td.code")] == [*SOURCE.split("\n")]
    line = page.find("#code tr[aria-current]")
    assert line.get_attribute("data-line") == "4"
    cells = [text.replace("\u00a0", " ") for text in line.locator("td").all_text_contents()[:2]]
    assert cells == ["900 ms 90.0 %", "900 ms 90.0 %"], "what it calls has no source here, so the time is the line's"


def test_source_tells_callers_callees_and_columns(open_page: OpenPage, read_me: Recording) -> None:
    page = open_page(read_me)
    page.view("source")
    assert page.texts("#about h3") == ["Line 4"]
    assert page.texts("#about .callees li") == ["66.7 %parse", "22.2 %check"]
    assert page.texts("#about .callers li") == ["100 %none: it is outermost"]
    assert page.texts("#about .ranges li") == [
        "66.7 %parse(item)", "22.2 %check(item)", "11.1 %total += parse(item) + check(item)",
    ]  # fmt: skip
    heat = page.run(
        """return [...document.querySelectorAll('#code tr[data-line="4"] .heat')].map((piece) => [piece.textContent,
        parseFloat(piece.style.getPropertyValue('--heat'))])"""
    )
    hottest = max(heat, key=lambda piece: piece[1])
    assert hottest[0] == "parse(item)"
    page.page.click("#code tr[data-line='3']")
    assert page.text("#about h3") == "Line 3"
    page.find("#code tbody").focus()
    page.keys("ArrowDown")
    assert page.text("#about h3") == "Line 4"
    page.page.click("#about .callees button >> nth=0")
    assert page.text("#sandwich .title .name") == "parse"


def test_a_source_that_is_not_there_is_told(open_page: OpenPage, read_me: Recording) -> None:
    page = open_page(read_me)
    page.view("source")
    page.find("#files").select_option(label="60.0 %  parse.py")
    assert "was not taken along" in page.text("#source-note")
    assert page.texts("#code td.number") == ["2"]


def test_sources_are_recorded(open_page: OpenPage, tmp_path: Path) -> None:
    """A program that has ended when its recording does: its source is there, at the line where it spent its time."""
    script = tmp_path / "burns.py"
    script.write_text(
        "def burn():\n    return sum(i * i for i in range(4_000_000))\n\n\nfor _ in range(6):\n    burn()\n", "utf-8"
    )
    capture = tmp_path / "burns.weft"
    command = [
        sys.executable,
        "-m",
        "weft",
        "record",
        "-o",
        str(capture),
        "-r",
        "500",
        "--",
        sys.executable,
        str(script),
    ]
    subprocess.run(command, check=True, capture_output=True)
    page = open_page(capture)
    page.view("source")
    page.find("#files").select_option(label=next(o for o in page.texts("#files option") if "burns.py" in o))
    assert page.text("#code tr[aria-current] .code") == "    return sum(i * i for i in range(4_000_000))"


def test_views_are_saved_as_svg(open_page: OpenPage, phases: Recording) -> None:
    """Every name that is in sight is in the picture, as text, and the picture has no script and no outside."""
    page = open_page(phases)
    texts = {}
    for view in ("flame", "timeline", "sandwich"):
        page.view(view)
        svg = ElementTree.fromstring(page.download("svg"))
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert {each.tag.rpartition("}")[2] for each in svg.iter()} <= {"svg", "g", "rect", "text"}
        texts[view] = [each.text or "" for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"all", "main", "a", "b", "work", "c"} <= set(texts["flame"])
    assert {"main", "a", "b"} <= set(texts["timeline"])
    assert any(re.fullmatch(r"▾ MainThread \(4242\)", text) for text in texts["timeline"])
    assert {"all", "c"} <= set(texts["sandwich"]) or {"all", "b"} <= set(texts["sandwich"])


def test_views_are_saved_as_png(open_page: OpenPage, phases: Recording) -> None:
    page = open_page(phases)
    for view in ("flame", "timeline", "sandwich"):
        page.view(view)
        data = page.download("png")
        assert data.startswith(b"\x89PNG\r\n")
        width = int.from_bytes(data[16:20], "big")
        assert width == 2 * page.run("return document.querySelector('section:not([hidden]) canvas').clientWidth")


SPREAD = """async (data) => {{ {scripts}
  const model = readModel(await unpack(data));
  const {{ start, lasts, weight, state }} = model.rows;
  const bins = binStates(model, 0, start[0], model.end, 100);
  return {{ rows: [...start].map((at, i) => [at, lasts[i], weight[i], state[i]]), bins: [...bins], end: model.end }};
}}"""


def test_a_thread_that_runs_on(chromium: Browser, tmp_path: Path) -> None:
    """GIVEN samples of a thread at times that are drawn without memory, each of which claims one period, and which is
    blocked twice THEN its rows follow one another, with the weights that they have, and it was blocked for as long."""
    rng = random.Random(3)
    builder = CaptureBuilder(tmp_path / "x.weft")
    for number in range(300):
        blocked = number in (100, 200)
        passed_ns = 3 * MS if blocked else round(min(4.0, rng.expovariate(1)) * 1000) * 1000 + 1000
        state, weight_ns = (State.BLOCKED, passed_ns) if blocked else (State.RUNNING, MS)
        builder.run([frame(rng.choice("ab"))], weight_ns, gap_ns=passed_ns - weight_ns, state=state)
    with Capture(builder.close()) as capture:
        data = content(capture, View(idle=True))
    page = chromium.new_page()
    scripts = " ".join(inline(name) for name in ("data.js", "lanes.js"))
    told = page.evaluate(SPREAD.format(scripts=scripts), data)
    page.close()
    rows = told["rows"]
    assert [row[2] for row in rows] == [3 * MS if number in (100, 200) else MS for number in range(300)]
    assert all(start + lasts == after for (start, lasts, *_), (after, *_) in pairwise(rows))
    assert [lasts for _, lasts, _, state in rows if state == State.BLOCKED] == [3 * MS] * 2
    size = (told["end"] - rows[0][0]) / 100
    sums = [sum(told["bins"][at : at + 7]) for at in range(0, 700, 7)]
    assert sums == pytest.approx([size] * 100, rel=1e-5)
