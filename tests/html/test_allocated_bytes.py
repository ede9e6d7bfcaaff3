"""The page of allocations: bytes in place of time, of moments; no states, and no time line of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from capture.builder import CaptureBuilder, allocations, frame, native_frame
from report_page import Page
from report_recordings import Recording

OpenPage = Callable[..., Page]


def test_bytes(open_page: OpenPage, tmp_path: Path) -> None:
    """GIVEN 3 GiB of malloc and 1 GiB of realloc THEN who asked has them; libc's functions are internals."""
    page = open_page(allocations(tmp_path / "x.weft"))
    assert page.rows == {
        ("make_array", "/srv/lib.so"): (100, 100),
        ("main", "/srv/app.py:1"): (0, 100),
        ("parse", "/srv/app.py:1"): (0, 75),
    }
    assert page.text("#top tbody tr").startswith("4.00 GiB 100 %")
    assert "one sample in 512 KiB, mode alloc" in page.text("#facts")
    page.toggle("internals")
    assert page.rows["malloc", "/srv/lib.so"] == (75, 75)
    assert page.rows["realloc", "/srv/lib.so"] == (25, 25)
    assert page.rows["make_array", "/srv/lib.so"] == (0, 100)


def test_words(open_page: OpenPage, tmp_path: Path) -> None:
    """A frame is told in bytes and allocations, in the sandwich and by threads, too."""
    page = open_page(allocations(tmp_path / "x.weft"))
    page.click(0.3, 1)
    assert "total 4.00 GiB (100 %)" in page.text("#selected")
    assert "3,004 allocations" in page.text("#selected")
    page.open_menu("threads")
    assert "4.00 GiB" in page.text("#threads li:not(.process)")
    page.close_menu()
    page.choose("inverted", "yes")
    page.click(0.5, 1)
    assert "memory 4.00 GiB (100 %)" in page.text("#selected")


def test_a_stretch_of_time(open_page: OpenPage, tmp_path: Path) -> None:
    """GIVEN an allocation at three of four seconds, one at the end WHEN the end is brushed THEN it alone counts."""
    builder = CaptureBuilder(tmp_path / "x.weft", {"mode": "alloc", "bytes_a_sample": 512 << 10, "collector": "bpf"})
    builder.run([frame("early"), native_frame("malloc")], 3_000_000_000, ticks=2)
    builder.run([frame("late"), native_frame("malloc")], 1_000_000_001, ticks=1)
    page = open_page(builder.close())
    page.drag("#overview", 0.9, 1)
    assert {name: shares for (name, _), shares in page.rows.items()} == {"late": (100, 100)}
    assert page.text("#top tbody tr").startswith("954 MiB")
    page.page.click("#range button")
    page.drag("#overview", 0.5, 0.9)
    assert {name for name, _ in page.rows} == {"early"}


def test_no_time_line(open_page: OpenPage, tmp_path: Path) -> None:
    """Neither by its tab nor by a link nor by the arrow keys; a recording of time has it."""
    path = allocations(tmp_path / "x.weft")
    page = open_page(path, fragment="#view=timeline")
    assert not page.find("#tab-timeline").is_visible()
    assert not page.find("#states").is_visible()
    assert page.find("#view-flame").is_visible()
    page.page.focus("#tab-flame")
    page.keys("ArrowRight")
    assert page.find("#view-sandwich").is_visible()
    page.keys("3")
    assert page.find("#view-functions").is_visible()
    page.keys("5")
    assert page.find("#view-functions").is_visible()
    recording = Recording()
    recording.add("main", 10)
    other = open_page(recording, fragment="#view=timeline")
    assert other.find("#view-timeline").is_visible()
    assert other.find("#states").is_visible()
