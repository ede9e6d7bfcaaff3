"""weft view as a person has it: the report, served, while the recording grows and when it has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import pytest
from capture.builder import SECOND, START_NS, CaptureBuilder
from playwright.sync_api import Browser, expect
from report_page import Page
from report_recordings import MS, Recording, Seen, costs, frame, random_recording
from weft_command import LIMIT_S, running_weft, wait_until

from weft._native import RunEncoder
from weft.live.feed import Feed
from weft.live.serve import Server
from weft.profile.tables import View
from weft.sample import Frame, FrameFlag, FrameKind, State

OpenView = Callable[..., Page]
VIEWS = ("flame", "timeline", "sandwich", "functions", "source")
HOSTILE = "</script><img src=x onerror=alert(1)>$title\u202e\x1b[31m"
PROGRAM = """
import select, sys
def work():
    return sum(i * i for i in range(20_000))
def main():
    while not select.select([sys.stdin], [], [], 0)[0]:
        work()
main()
"""


@contextmanager
def served(path: Path) -> Iterator[str]:
    """Serves a capture from a thread of this process, whose limits a test may set; gives the page's address."""
    feed = Feed(path, View())
    with Server(feed) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()
    feed.close()


@pytest.fixture
def open_here(chromium: Browser) -> Iterator[OpenView]:
    """Opens the page of a capture that this process serves. It complains of nothing, and asks nobody else."""
    with ExitStack() as stack:
        pages: list[Page] = []

        def open_it(path: Path, **options: object) -> Page:
            pages.append(Page(chromium, stack.enter_context(served(path)), **options))  # type: ignore[arg-type]
            return pages[-1]

        yield open_it
        for page in pages:
            page.context.close()
            assert page.complaints == []
            assert [url for url in page.requests if not url.startswith(("blob:", "data:", page.url))] == []


def shows(page: Page, selector: str, text: str) -> None:
    """Waits until an element has this text in it."""
    expect(page.find(selector).first).to_contain_text(text, timeout=LIMIT_S * 1000)


def stack(names: str) -> list[Frame]:
    return [frame(name, line=10 + i, first_line=1) for i, name in enumerate(names.split())]


def test_the_same_report_as_the_file(open_view: OpenView, tmp_path: Path) -> None:
    """It draws, zooms, searches and saves; the numbers are the plainest count's."""
    recording = random_recording(11)
    page = open_view(recording.write(tmp_path / "x.weft"))
    truth = costs(recording.chosen())
    shown = page.rows
    assert {key: shown[key[0], f"{key[1]}:{key[2]}"] for key in truth} == {
        key: pytest.approx(values, abs=0.051) for key, values in truth.items()
    }
    page.view("flame")
    page.click(0.3, 1)
    zoomed = page.crumbs
    assert len(zoomed) == 2
    page.search("json")
    assert "%" in page.text("#matched")
    assert page.find("#live").is_hidden(), "nothing is recorded any more, and nothing was while it was looked at"
    page.page.reload()
    page.page.wait_for_selector("body[data-ready]")
    assert (page.crumbs, page.page.input_value("#search")) == (zoomed, "json")
    for view in VIEWS:
        page.view(view)
    page.view("flame")
    assert page.download("svg").startswith(b"<svg")


def test_sources_come_when_they_are_read(open_view: OpenView, tmp_path: Path) -> None:
    sources = {"/srv/app.py": "import this\n" * 9 + "one()\ntwo()\n", "/srv/b.py": f"# {HOSTILE}\n"}
    recording = Recording(sources=sources)
    recording.add("main work", 30)
    recording.seen.append(Seen((frame("other", "/srv/b.py", 1, 1),), 10 * MS))
    page = open_view(recording.write(tmp_path / "x.weft"))
    assert not [url for url in page.requests if "source" in url]
    page.view("source")
    shows(page, "#code [data-line='11'] .code", "two()")
    assert page.texts("#code tr.hot .number") == ["10", "11"]
    assert [url.rpartition("/")[2].partition("?")[0] for url in page.requests if "source" in url] == ["source"]
    page.page.select_option("#files", index=1)
    shows(page, "#code .code", "onerror=alert(1)>$title\\u{202e}\\u{1b}[31m")


def test_a_recording_is_followed_to_its_end(open_here: OpenView, tmp_path: Path) -> None:
    """What is zoomed, searched and chosen stays, while numbers grow and threads, states and functions are added."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run(stack("main work step"), SECOND, ticks=1000)
    builder.run(stack("main other"), 3 * SECOND, ticks=3000)
    builder.commit()
    page = open_here(builder.writer.path)
    shows(page, "#live", "recording")
    shows(page, "#live", "4\u00a0s")
    page.search("work")
    assert page.text("#matched") == "25.0 % in 1 function"
    page.click(0.9, 2)
    assert page.crumbs == ["all", "main", "work"]
    address_before = page.page.url
    builder.run(stack("main work step"), SECOND, ticks=1000)
    builder.run(stack("main earlier"), 5 * SECOND, ticks=5000)
    builder.add_thread(2, 1, 1240, "late")
    builder.run(stack("main work found"), 2 * SECOND, thread=2, state=State.GIL, ticks=2000)
    builder.commit()
    shows(page, "#live", "10\u00a0s")
    assert page.crumbs == ["all", "main", "work"]
    assert page.text("#matched") == "33.3 % in 1 function"
    assert page.text("#selected .amount") == "total 4.00 s (33.3 %)"
    assert page.text("#threads summary") == "All 2 threads"
    assert page.text("#states summary") == "All states"
    assert page.page.url == address_before
    builder.close()
    shows(page, "#live", "the recording has ended")
    assert page.find("#live button").is_hidden()
    assert page.crumbs == ["all", "main", "work"]
    assert page.page.input_value("#search") == "work"
    page.view("functions")
    assert page.texts("#top tbody .name") == ["work"]


def test_every_view_stays_where_it_is(open_here: OpenView, tmp_path: Path) -> None:
    """A stretch of time, the order of a table and the lines that are open in it, a sandwich, the place in a source."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    for i in range(40):
        builder.run(stack(f"main f{i}"), SECOND // 10 + i * MS, ticks=100)
    builder.commit()
    page = open_here(builder.writer.path)
    seconds = 4

    def grow() -> None:
        nonlocal seconds
        builder.run(stack("main f7"), 20 * SECOND, ticks=20_000)
        builder.commit()
        seconds += 20
        shows(page, "#live", f"{seconds}\u00a0s")

    page.drag("#overview", 0.25, 0.5)
    chosen = page.text("#range")
    page.view("functions")
    page.page.click("[data-sort=name]")
    page.page.click("#top tr:nth-child(2) .lines")
    before = page.texts("#top tbody tr")
    page.find("#top tr:nth-child(4) button.name").focus()
    focused = "return document.activeElement.textContent"
    name = page.run(focused)
    grow()
    assert (page.text("#range"), page.texts("#top tbody tr"), page.run(focused)) == (chosen, before, name)
    page.keys("Escape")
    page.view("sandwich")
    title = page.text("#sandwich .title .name")
    grow()
    assert page.text("#sandwich .title .name") == title
    page.view("timeline")
    page.page.click("#nearer")
    sight = "const c = document.querySelector('#timeline canvas'); return c.toDataURL().length > 0"
    grow()
    assert page.run(sight)
    page.view("source")
    page.page.click("#code tr[data-line='10'] .number")
    grow()
    assert page.find("#code tr[aria-current]").get_attribute("data-line") == "10"
    builder.close()
    shows(page, "#live", "ended")


def test_a_zoom_by_wheel_stays(open_here: OpenView, tmp_path: Path) -> None:
    """What fills the sight still does, though it has become a smaller part of the whole and lies elsewhere."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run(stack("main left"), 6 * SECOND)
    builder.run(stack("main right deep"), 4 * SECOND)
    builder.commit()
    page = open_here(builder.writer.path)
    page.point(0.8, 3)
    page.page.keyboard.down("Control")
    for _ in range(12):
        page.page.mouse.wheel(0, -200)
    page.page.keyboard.up("Control")
    page.point(0.5, 3)
    assert page.text("#tip .name") == "deep"
    builder.run(stack("main other"), 30 * SECOND)
    builder.run(stack("main right deep"), 10 * SECOND)
    builder.commit()
    shows(page, "#live", "50\u00a0s")
    for x in (0.02, 0.5, 0.98):
        page.point(x, 3)
        assert page.text("#tip .name") == "deep"
    builder.close()
    shows(page, "#live", "ended")


def test_pause_and_go_on(open_here: OpenView, tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run(stack("main"), SECOND)
    builder.commit()
    page = open_here(builder.writer.path)
    page.page.click("#live button")
    shows(page, "#live", "paused at")
    builder.run(stack("main more"), 7 * SECOND)
    builder.commit()
    page.page.wait_for_timeout(3000)  # longer than between two questions
    assert "more" not in {name for name, _ in page.rows}
    page.page.click("#live button")
    shows(page, "#live", "8\u00a0s")
    shows(page, "#top tbody", "more")
    builder.close(ended="the disk was full")
    shows(page, "#live", "the recording has ended: the disk was full")


def test_addresses_become_names_and_the_zoom_stays(open_here: OpenView, tmp_path: Path) -> None:
    """GIVEN a zoom through native frames WHEN names come, of one that is hidden, too, THEN it is there still."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    writer = builder.writer
    writer.add_module(1, "/srv/lib.so", None)
    for number in (101, 102):
        writer.add_native_frame(number, 1, 16 * number, FrameFlag(0))
    main, inner = frame("main", line=3, first_line=1), frame("inner", line=7, first_line=6)
    builder.stack([main, inner])
    callers = [(0, builder.frames[main]), (1000, 101), (1001, 102), (1002, builder.frames[inner])]
    writer.add_stacks((1000 + i, *row) for i, row in enumerate(callers))
    encoder = RunEncoder()
    encoder.append(START_NS + SECOND, SECOND, 1000, State.RUNNING, 1003)
    encoder.append(START_NS + 3 * SECOND, 2 * SECOND, 2000, State.RUNNING, 1000)
    writer.add_runs(1, *encoder.take())
    writer.commit(START_NS + 3 * SECOND)
    page = open_here(writer.path)
    shows(page, "#live", "some native functions have their names once it ends")
    page.click(0.9, 4)
    page.click(0.1, 4)
    assert page.crumbs == ["all", "main", "0x650", "0x660", "inner"]
    hidden = Frame(FrameKind.NATIVE, "call_it", "", 0, flags=FrameFlag.MACHINERY)
    writer.add_functions(101, [hidden])
    writer.add_functions(
        102, [Frame(FrameKind.NATIVE, "outer", "a.c", 5), Frame(FrameKind.NATIVE, "inlined", "a.h", 6)]
    )
    writer.close()
    shows(page, "#live", "ended")
    assert page.crumbs == ["all", "main", "outer", "inlined", "inner"]
    assert page.text("#selected .amount") == "total 1.00 s (33.3 %)"


def test_what_is_pruned_becomes_whole_where_one_zooms(
    open_here: OpenView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN more stacks than a page can hold WHEN a part of them is zoomed into THEN that part is told in full."""
    recording = Recording()
    for branch in ("left", "middle", "right"):
        recording.add(f"main {branch} heavy", 500)
        for i in range(60):
            recording.add(f"main {branch} rare rare_{branch}_{i}", 1)
    monkeypatch.setattr(sys.modules["weft.report.html.content"], "MAX_STACKS", 130)
    page = open_here(recording.write(tmp_path / "x.weft"))
    assert "pruned" in page.text("#losses")
    page.search("/^rare_/")
    assert page.text("#matched") == "0 % in 0 functions"
    for x, branch in ((0.1, "left"), (0.9, "right")):
        page.click(x, 2)
        shows(page, "#matched", "3.6\u00a0% in 60\u00a0functions")
        assert page.crumbs == ["all", "main", branch]
        page.view("functions")
        assert set(page.texts("#top tbody .name")) == {f"rare_{branch}_{i}" for i in range(60)}
        page.view("flame")
        page.keys("Escape")


def test_a_stretch_of_time_is_told_in_full(
    open_here: OpenView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN more runs than rows WHEN a stretch of time is chosen THEN nothing in it is pruned."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    expected: dict[str, int] = {}
    for second in range(60):
        for i in range(50):
            name = f"f{(second * 7 + i * i) % 90}"
            builder.run(stack(f"main {name}"), 20 * MS, ticks=20)
            if 30 <= second < 36:
                expected[name] = expected.get(name, 0) + 20
        builder.commit()
    builder.close()
    monkeypatch.setattr(sys.modules["weft.report.html.timeline"], "MAX_ROWS", 1500)
    monkeypatch.setattr(sys.modules["weft.report.html.timeline"], "MAX_SLICED", 200)
    page = open_here(builder.writer.path)
    page.page.goto(f"{page.url}#view=functions&time=30000000-36000000")
    page.page.reload()
    shows(page, "#order", "it is kept in full")
    shown = {name: share[0] for (name, _), share in page.rows.items() if name != "main"}
    assert shown == {name: pytest.approx(100 * ms / 6000, abs=0.051) for name, ms in expected.items()}


def test_hostile_names(open_view: OpenView, tmp_path: Path) -> None:
    stack = (frame("main"), frame(HOSTILE, file=f"/srv/{HOSTILE}.py", line=3, first_line=1))
    recording = Recording([Seen(stack, 6 * MS)], thread_names=(HOSTILE,), command=("python3", HOSTILE))
    page = open_view(recording.write(tmp_path / "x.weft"))
    for view in VIEWS:
        page.view(view)
    assert page.run("return document.images.length") == 0
    assert "\u202e" not in page.text("body")
    page.view("functions")
    assert "</script><img src=x onerror=alert(1)>$title\\u202e\\x1b[31m" in page.texts("#top .name")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_every_view_fits_every_screen(open_here: OpenView, tmp_path: Path, width: int, dark: bool) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run(stack("main work step"), 3 * SECOND)
    builder.commit()
    page = open_here(builder.writer.path, width=width, height=800, dark=dark, touch=width < 500)
    for view in VIEWS:
        page.view(view)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), view
        assert page.find("#live button").is_visible()
    builder.close()
    shows(page, "#live", "the recording has ended")


def test_trouble_is_said_and_what_is_shown_stays(open_here: OpenView, tmp_path: Path) -> None:
    """GIVEN a capture that goes away WHEN the page asks again THEN it says why, and can be told to try again."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run(stack("main work"), SECOND)
    builder.commit()
    page = open_here(builder.writer.path)
    away = tmp_path / "away.weft"
    builder.writer.path.rename(away)
    shows(page, "#live", "cannot read")
    assert {name for name, _ in page.rows} == {"main", "work"}
    assert all("500" in complaint for complaint in page.complaints)
    page.complaints.clear()  # Chromium's own words of an answer that is an error
    away.rename(builder.writer.path)
    builder.close()
    page.page.click("#live button")
    shows(page, "#live", "the recording has ended")


def test_a_recorder_that_is_gone(open_here: OpenView, tmp_path: Path) -> None:
    """GIVEN a capture that nothing was written to for a minute THEN the page says so, until something is."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run(stack("main work"), SECOND)
    builder.commit()
    page = open_here(builder.writer.path)
    shows(page, "#live", "recording")
    for file in tmp_path.iterdir():
        os.utime(file, (time.time() - 60,) * 2)
    shows(page, "#live", "nothing has been written for6")
    builder.run(stack("main step"), SECOND)
    builder.commit()
    shows(page, "#live", "recording,2 s")
    builder.close()
    shows(page, "#live", "the recording has ended")


def test_native_functions_are_named_while_it_is_recorded(open_view: OpenView, tmp_path: Path) -> None:
    """GIVEN a program of this machine that sorts THEN list's sort has its name in the page meanwhile."""
    capture, program = tmp_path / "x.weft", tmp_path / "program.py"
    program.write_text(
        PROGRAM.replace("sum(i * i for i in range(20_000))", "sorted(float(i * 7919 % 9973) for i in range(9999))")
    )
    command = [sys.executable, program]
    with running_weft("record", "-o", capture, "-r", "200", "--", *command, stdin=subprocess.PIPE) as weft:
        wait_until(lambda: capture.exists() and capture.stat().st_size > 0, "the capture is there")
        page = open_view(capture)
        page.view("functions")
        page.search("list_sort")
        shows(page, "#top tbody", "list_sort")
        assert "recording," in page.text("#live")
        assert weft.stdin
        weft.stdin.close()
        shows(page, "#live", "the recording has ended")
        shows(page, "#top tbody", "list_sort")
        assert weft.wait(LIMIT_S) == 0


def test_a_real_recording_is_followed(open_view: OpenView, tmp_path: Path) -> None:
    """A program that computes, recorded by weft record, from when nothing of it was seen to its end."""
    capture, program = tmp_path / "x.weft", tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, program]
    with running_weft("record", "-o", capture, "-r", "200", "--", *command, stdin=subprocess.PIPE) as weft:
        wait_until(lambda: capture.exists() and capture.stat().st_size > 0, "the capture is there")
        page = open_view(capture)
        shows(page, "#live", "recording")
        page.view("functions")
        shows(page, "#top tbody", "work")
        assert weft.stdin
        weft.stdin.close()
        shows(page, "#live", "the recording has ended")
        assert weft.wait(LIMIT_S) == 0
    assert not capture.with_name("x.weft-wal").exists(), "a reader must not keep it from being one file"
