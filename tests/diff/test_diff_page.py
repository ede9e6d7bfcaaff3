"""`weft diff -o diff.html` in a real Chromium, as a person uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from capture.builder import CaptureBuilder, frame
from playwright.sync_api import Browser, Page
from weft_command import run_weft

MS = 1_000_000
NASTY = "</script><img src=x onerror=alert(1)>\u202e"
OpenPage = Callable[..., Page]


def record(path: Path, times_ms: dict[str, int], depth: int = 1) -> Path:
    builder = CaptureBuilder(path)
    for _ in range(200):
        for function, time_ms in times_ms.items():
            stack = [frame("main"), *[frame(function)] * depth]
            builder.run(stack, time_ms * MS, ticks=time_ms)
    return builder.close()


@pytest.fixture
def open_diff(chromium: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Opens the page of a difference; at the end, nothing was complained about, and nothing loaded."""
    complaints: list[str] = []
    pages: list[Page] = []

    def open_it(before: Path, after: Path, *options: str, dark: bool = False, width: int = 1280) -> Page:
        path = tmp_path / "diff.html"
        run = run_weft("diff", before, after, "-o", path, *options)
        assert (run.returncode, run.stderr) == (0, "")
        page = chromium.new_page(color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900})
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: None if request.url == path.as_uri() else complaints.append(request.url))
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield open_it
    for page in pages:
        page.close()
    assert complaints == []


def colour(page: Page, x: float, level: int) -> tuple[int, int, int]:
    """The colour of the graph at a part of its width, on a level, at the left of any text."""
    pixel = page.locator("canvas").evaluate(
        "(canvas, [x, y]) => [...canvas.getContext('2d').getImageData(x * canvas.width, y, 1, 1).data]",
        [x, level * 20 + 3],
    )
    return tuple(pixel[:3])


def kind(rgb: tuple[int, int, int]) -> str:
    red, _, blue = rgb
    return "red" if red > blue + 20 else "blue" if blue > red + 20 else "grey"


@pytest.mark.parametrize("dark", [False, True])
def test_colours_tell_what_has_changed(open_diff: OpenPage, tmp_path: Path, dark: bool) -> None:
    """Half of the time is the same, a quarter doubles, an eighth goes: red, blue, and grey for what is as before."""
    before = record(tmp_path / "a.weft", {"same": 8, "more": 4, "less": 4})
    after = record(tmp_path / "b.weft", {"same": 8, "more": 8, "less": 2})
    page = open_diff(before, after, "--normalise", "none", dark=dark)
    # widest first: same 8/18, more 8/18, less 2/18
    assert [kind(colour(page, x, 2)) for x in (0.2, 0.6, 0.95)] == ["grey", "red", "blue"]
    assert kind(colour(page, 0.5, 1)) == "red"  # main takes more, too
    page.get_by_label("before").check()  # same 8/16, more 4/16, less 4/16
    assert [kind(colour(page, x, 2)) for x in (0.2, 0.6, 0.9)] == ["grey", "red", "blue"]
    rows = page.locator("#rows tr").all_inner_texts()
    assert [row.split("\t")[-1].split()[0] for row in rows] == ["more", "main", "less"]
    assert rows[0].split("\t")[:3] == ["800 ms", "1.6 s", "+25.0 %"]


def test_noise_is_grey(open_diff: OpenPage, tmp_path: Path) -> None:
    """The same program twice: nothing is listed or coloured."""
    before = record(tmp_path / "a.weft", {"one": 4, "two": 3})
    after = record(tmp_path / "b.weft", {"one": 4, "two": 3})
    page = open_diff(before, after)
    assert {kind(colour(page, x, level)) for x in (0.1, 0.4, 0.7) for level in (0, 1, 2)} == {"grey"}
    assert page.get_by_text("Nothing that is more than noise.").is_visible()
    assert not page.locator("table").is_visible()


def test_zoom_search_and_keys(open_diff: OpenPage, tmp_path: Path) -> None:
    before = record(tmp_path / "a.weft", {"one": 6, "two": 3})
    after = record(tmp_path / "b.weft", {"one": 6, "two": 9})
    page = open_diff(before, after, width=390)
    graph, told = page.locator("canvas"), page.locator("#told")
    box = graph.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 45)
    assert told.inner_text().startswith("one (app.py): here 66.7 % before, 40.0 % after, -26.7 %.")
    page.mouse.click(box["x"] + 0.2 * box["width"], box["y"] + 45)
    assert told.inner_text().startswith("two (app.py)")
    assert (graph.bounding_box() or {})["height"] == 20
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    graph.focus()
    for key in ("Escape", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert told.inner_text().startswith("one (app.py)")
    page.get_by_role("button", name="two").click()
    assert page.get_by_label("Search").input_value() == "two"
    red, green, blue = colour(page, 0.2, 2)
    assert min(red, green) > blue + 60  # the yellow of what is found


def test_names_are_text(open_diff: OpenPage, tmp_path: Path) -> None:
    """A function whose name is markup, and one of 5,000 characters."""
    before = record(tmp_path / "a.weft", {NASTY: 3, "x" * 5000: 3, "other": 20})
    after = record(tmp_path / "b.weft", {NASTY: 9, "x" * 5000: 9, "other": 20})
    page = open_diff(before, after)
    assert page.locator("img").count() == 0
    assert r"</script><img src=x onerror=alert(1)>\u202e" in page.locator("#rows").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_deep_stacks(open_diff: OpenPage, tmp_path: Path) -> None:
    """20,000 frames deep."""
    before = record(tmp_path / "a.weft", {"down": 3}, depth=20_000)
    after = record(tmp_path / "b.weft", {"down": 3, "other": 3}, depth=20_000)
    page = open_diff(before, after)
    assert page.locator("canvas").evaluate("canvas => canvas.height") > 1000
    page.locator("canvas").click(position={"x": 100, "y": 3000})
    assert page.locator("#told").inner_text().startswith(("down", "other"))
