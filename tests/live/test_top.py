"""The live view by textual's pilot: keys, hostile names, sizes; and how it looks, as snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from capture.builder import CaptureBuilder, frame, native_frame
from live.made import woven_capture
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from textual.pilot import Pilot

from weft.capture import Capture
from weft.live.cells import Cells, FlameView, TableView
from weft.live.flame import layout
from weft.live.head import Cost
from weft.live.keys import KEYS
from weft.live.model import Pane, Settings
from weft.live.top import TopApp
from weft.live.watch import Watch
from weft.profile.tables import View
from weft.report.data import as_dict
from weft.sample import State

Act = Callable[[TopApp, Pilot[None]], Awaitable[None]]


def made_app(path: Path, **settings: Any) -> TopApp:
    return TopApp(Watch(path, Settings(since_start=True, **settings)), default_path="out.weft")


def driven(app: TopApp, act: Act, size: tuple[int, int] = (100, 24)) -> None:
    """Run the view without a terminal, and do something with it."""

    async def drive() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await act(app, pilot)

    asyncio.run(drive())


def text_of(app: TopApp) -> str:
    """What is on the screen."""
    return "\n".join("".join(segment.text for segment in line) for line in app.screen._compositor.render_strips())


@pytest.fixture
def app(tmp_path: Path) -> TopApp:
    return made_app(woven_capture(tmp_path / "x.weft"))


def test_the_panes_show_what_the_capture_holds(app: TopApp) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        for key, words in {
            "1": ["serve", "Parser.parse", "<ring::digest>::update", "[no Python frame]"],
            "2": ["app.py:70", "tree.py:91"],
            "3": ["all", "main", "work", "crunch"],
            "4": ["MainThread", "worker-1", "idle", "lock", "GIL wait"],
            "5": ["in worker-2 (1236)", "Parser.parse", "not known", "(not sampled)"],
        }.items():
            await pilot.press(key)
            await pilot.pause()
            shown = text_of(app)
            assert [word for word in words if word not in shown] == []
            for word in ("app.py", "PID 1234", "2,980 of 3,000 samples", "12 lost", "31 counted", "2 open", "ended"):
                assert word in shown

    driven(app, act)


def test_tab_goes_through_all_panes(app: TopApp) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        seen = []
        for _ in Pane:
            seen.append(app._watch.model.settings.pane)
            await pilot.press("tab")
        assert seen == list(Pane)
        await pilot.press("shift+tab")
        assert app._watch.model.settings.pane is Pane.GIL

    driven(app, act)


def test_sorting_filtering_and_searching(app: TopApp) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        def first() -> str:
            table = app.query_one(TableView)._table
            assert table is not None
            return table.text(table.rows[0])

        assert first().startswith("serve")
        await pilot.press("I")
        assert not first().startswith("serve")
        await pilot.press("I", "s", "s", "S")
        assert first().startswith("serve")
        await pilot.press("slash", *"TREE", "enter")
        await pilot.pause()
        assert "walk" in text_of(app)
        assert "serve" not in text_of(app)
        await pilot.press("f4", "x", "enter")
        await pilot.pause()
        assert "nothing matches the filter" in text_of(app)
        await pilot.press("c", "f3", *"crunch", "enter")
        await pilot.pause()
        view = app.query_one(TableView)
        assert view._table is not None
        assert view._table.text(view._table.rows[view.chosen]).startswith("crunch")
        await pilot.press("slash", "q", "p", "escape")  # letters that are keys elsewhere
        await pilot.pause()
        assert "serve" in text_of(app)
        assert app.is_running

    driven(app, act)


def test_keys_change_what_is_shown(app: TopApp) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        settings = lambda: app._watch.model.settings  # noqa: E731
        for key, setting in {"a": "since_start", "o": "idle", "n": "native", "i": "all_frames"}.items():
            before = getattr(settings(), setting)
            await pilot.press(key)
            assert getattr(settings(), setting) is not before
            await pilot.press(key)
            assert getattr(settings(), setting) is before
        await pilot.press("t")
        assert settings().thread == 1
        await pilot.press("right", "right_square_bracket")
        assert settings().thread == 3
        await pilot.press("left", "t")
        assert settings().thread is None
        await pilot.press("4", "down", "enter")
        await pilot.pause()
        assert settings().pane is Pane.FUNCTIONS
        assert settings().thread == 2
        assert "worker-1 (1235)" in text_of(app)
        await pilot.press("r")
        await pilot.pause()
        assert "since the reset" in text_of(app)
        assert app._watch.model.rows() == []

    driven(app, act)


def test_zooming_in_the_flame_graph(app: TopApp) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("f5")
        await pilot.pause()
        view = app.query_one(FlameView)
        flame, _ = app._watch.model.flame()

        def chosen() -> str:
            return flame.samples[flame.tree.frame[view.chosen]].function if view.chosen else "all"

        await pilot.press("down")
        assert chosen() == "work"  # the widest
        await pilot.press("left", "down", "enter")
        assert chosen() == "Parser.parse"
        await pilot.pause()
        assert "serve" not in text_of(app)
        await pilot.press("n")  # the tree is made anew: what was chosen and zoomed into is found again
        await pilot.pause()
        flame, _ = app._watch.model.flame()
        assert chosen() == "Parser.parse"
        assert "serve" not in text_of(app)
        await pilot.press("n", "backspace", "backspace")
        await pilot.pause()
        assert "serve" in text_of(app)
        await pilot.press("I")
        await pilot.pause()
        assert "inverted" in text_of(app)

    driven(app, act)


def test_the_help_has_all_keys(app: TopApp) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("h")
        await pilot.pause()
        shown = text_of(app)
        assert [text for _, _, keys, text in KEYS if keys and text not in shown] == []
        await pilot.press("q")  # closes the page, and no more
        await pilot.pause()
        assert app.is_running
        assert "serve" in text_of(app)

    driven(app, act, (80, 24))


def test_keys_are_unambiguous_and_documented() -> None:
    keys = [key for each, *_ in KEYS for key in each.split(",")]
    assert len(keys) == len(set(keys))
    page = (Path(__file__).parents[2] / "docs" / "top.md").read_text()
    assert [shown for _, _, shown, _ in KEYS if any(f"`{key}`" not in page for key in _words(shown))] == []


def _words(shown: str) -> list[str]:
    return [word.strip(",") for word in shown.split() if word not in ("to", "...", "arrows,", "\\")]


def test_what_was_seen_is_written_as_a_capture(tmp_path: Path) -> None:
    """GIVEN a recording that runs WHEN w is pressed THEN a finished capture has what it held, and the view goes on."""
    source, copy = woven_capture(tmp_path / "x.weft", ended=False), tmp_path / "copy.weft"
    app = made_app(source)

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        for path in (copy, copy, tmp_path / "no" / "folder.weft", source):
            await pilot.press("w", *["backspace"] * 8)
            app.query_one("#prompt").value = str(path)  # type: ignore[attr-defined]
            await pilot.press("enter")
            while not app._message:
                await pilot.pause(0.01)
            await pilot.pause()
            wrote = f"wrote {copy}"[:60] in text_of(app) and "goes on" in text_of(app)
            assert wrote if path == copy else "cannot write" in text_of(app)

    driven(app, act, (300, 24))
    with Capture(source) as before, Capture(copy) as after:
        assert after.meta["ended"] == ""
        assert as_dict(before, View())["functions"] == as_dict(after, View())["functions"] != []
    assert not copy.with_name("copy.weft-wal").exists()


def test_names_that_were_found_live_are_written(tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.writer.add_module(1, "/srv/lib.so", None)
    builder.writer.add_native_frame(77, 1, 0x1234, native_frame("x").flags)
    builder.writer.add_stacks([(50, 0, 77)])
    builder.writer.set_standing(1, 50, State.RUNNING, 0)
    builder.commit()
    watch = Watch(tmp_path / "x.weft", Settings())
    watch._named[77] = (native_frame("outer"), native_frame("inlined\ud800"))
    watch.write(tmp_path / "copy.weft")
    with Capture(tmp_path / "copy.weft") as capture:
        ((_, functions),) = capture.frames()
    assert [each.function for each in functions] == ["outer", "inlined\\ud800"]


def test_pausing_holds_the_view_still(tmp_path: Path) -> None:
    """GIVEN a view that is paused WHEN the recording goes on THEN it shows that only when it goes on, too."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame("early")])
    builder.commit()
    app = made_app(builder.writer.path)

    async def shows(app: TopApp, pilot: Pilot[None], word: str) -> None:
        while word not in text_of(app):
            await pilot.pause(0.01)

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("plus", "plus", "p")
        await shows(app, pilot, "paused")
        builder.run([frame("later")])
        builder.commit()
        await pilot.pause(1.0)
        assert "later" not in text_of(app)
        await pilot.press("space")
        await shows(app, pilot, "later")
        builder.close()
        await shows(app, pilot, "ended")

    driven(app, act)


HOSTILE = (
    "[red]x[/red]",
    "</script>",
    "\x1b[31m\x1b]0;title\x07",
    "two\nlines\r\ttab",
    "\u202egnp.exe\u2066",
    "[@click=app.quit]q[/]",
    "漢字" * 40,
    "e\u0301" * 50,
    "x" * 10_000,
    "\x9b31m",
    "",
)


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 10), (12, 6), (1, 1)])
def test_hostile_names_are_text(tmp_path: Path, size: tuple[int, int]) -> None:
    """GIVEN names, files, threads and commands that could steer a terminal THEN every pane shows text."""
    builder = CaptureBuilder(tmp_path / "x.weft", {"collector": "\x1b[2J[bold]"})
    for number, name in enumerate(HOSTILE, 2):
        builder.add_process(number, 9000 + number, ["python3", name], 1)
        builder.add_thread(number, number, 9000 + number, name)
        for _ in range(3):
            builder.run(
                [frame(name, 5, f"/srv/{name}.py"), frame(name + "2", 7, name), native_frame("f")], thread=number
            )
        waits = builder.stack([frame(name, 5, name)])
        builder.writer.add_gil_waits([(number, waits, 1, waits, 1000)])
    builder.run([frame(f"deep{level}") for level in range(300)])
    builder.writer.set_losses(1, {"\x1b[31m": (3, 5)})
    app = made_app(builder.close())

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        for key in "12345":
            await pilot.press(key, "down", "right", "enter", key)
            await pilot.pause()
            shown = text_of(app)
            assert all(char == "\n" or char.isprintable() for char in shown), ascii(shown)
            for line in app.screen._compositor.render_strips():
                assert line.cell_length <= size[0]
            if size == (200, 50) and key == "1":
                await pilot.press("escape")
                await pilot.pause()
                assert "[red]x[/red]" in text_of(app)
                assert "\\x1b[31m" in text_of(app)
        for text in HOSTILE[:6]:
            app._filter(text)
            app._message = text
            app.draw()
            await pilot.pause()
            assert all(char == "\n" or char.isprintable() for char in text_of(app))

    driven(app, act, size)


@pytest.mark.parametrize("width", [0, 1, 2, 3, 10, 79, 1000])
def test_bars_lie_within_their_callers(tmp_path: Path, width: int) -> None:
    app = made_app(woven_capture(tmp_path / "x.weft"), pane=Pane.FLAME)
    flame, ledger = app._watch.model.flame()
    rows = layout(flame, ledger, 0, width)
    for above, row in pairwise(rows):
        ends = {bar.node: (bar.begin, bar.end) for bar in above}
        at = 0
        for bar in row:
            begin, end = ends[flame.tree.parent[bar.node]]
            assert begin <= bar.begin < bar.end <= end
            assert bar.begin >= at
            at = bar.end
    assert bool(rows) is bool(width)


def test_nothing_is_drawn_anew_that_is_as_it_was(app: TopApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        drawn: list[object] = []
        monkeypatch.setattr(Cells, "refresh", lambda self, *regions, **options: drawn.append(regions) or self)
        app.draw()
        assert drawn == []
        app._message = "now"
        app.draw()
        assert len(drawn) == 1

    driven(app, act)


@pytest.mark.parametrize(
    ("name", "size", "keys"),
    [
        ("functions", (80, 24), []),
        ("functions-wide", (120, 30), ["down", "n"]),
        ("lines", (100, 24), ["2", "s"]),
        ("flame", (100, 24), ["3", "down", "left", "down"]),
        ("flame-internals", (80, 24), ["3", "i", "I"]),
        ("threads", (100, 24), ["4", "o"]),
        ("gil", (80, 24), ["5"]),
        ("help", (80, 24), ["h"]),
        ("filter", (80, 24), ["slash", "w", "a", "l"]),
        ("narrow", (40, 12), []),
    ],
)
def test_looks(tmp_path: Path, snap_compare: Any, name: str, size: tuple[int, int], keys: list[str]) -> None:
    assert looks(tmp_path, snap_compare, name, size, keys)


@pytest.mark.parametrize(
    ("name", "keys"), [("functions", ["down"]), ("flame", ["3", "down", "left", "down"]), ("threads", ["4", "o"])]
)
def test_looks_in_a_light_terminal(
    tmp_path: Path, snap_compare: Any, monkeypatch: pytest.MonkeyPatch, name: str, keys: list[str]
) -> None:
    """GIVEN a terminal whose own colours are black on white."""
    monkeypatch.setattr("rich.console.SVG_EXPORT_THEME", DEFAULT_TERMINAL_THEME)
    assert looks(tmp_path, snap_compare, f"{name}, light", (100, 24), keys)


def looks(tmp_path: Path, snap_compare: Any, name: str, size: tuple[int, int], keys: list[str]) -> bool:
    """Whether the view looks as its snapshot does, after these keys."""
    app = TopApp(Watch(woven_capture(tmp_path / "x.weft"), Settings(since_start=True)), cost=lambda: Cost(0.012, 0.021))
    app.title = f"weft top: {name}"

    async def settle(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()

    return bool(snap_compare(app, terminal_size=size, run_before=settle))


def test_without_colour(tmp_path: Path, snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN NO_COLOR THEN calls can still be told apart, and the chosen one."""
    monkeypatch.setenv("NO_COLOR", "1")
    app = made_app(woven_capture(tmp_path / "x.weft"), pane=Pane.FLAME)
    assert snap_compare(app, terminal_size=(100, 24), press=["down"])
