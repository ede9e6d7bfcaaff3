"""weft top: the terminal's view of a Watch."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.css.query import NoMatches
from textual.widgets import Input

from weft.capture import Thread
from weft.errors import WeftError
from weft.live.cells import Cells, FlameView, TableView
from weft.live.head import Cost, foot_of, head_of, tabs_of
from weft.live.keys import KEYS, HelpScreen
from weft.live.model import Pane
from weft.live.tables import Spans, columns_of, sortable, table_of
from weft.live.watch import Watch

PERIODS: Final = (1.0, 2.0, 5.0, 10.0)  # seconds from look to look; what is recorded is written every 0.8


class TopApp(App[None]):
    """The view. `cost`: what it costs, asked at each look; `lives`: whether the recorder does."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; background: ansi_default; color: ansi_default; overflow: hidden; }
    Cells { background: ansi_default; color: ansi_default; }
    #head { height: 3; }
    #tabs, #foot { height: 1; }
    #body { height: 1fr; }
    #table, #flame, #help { height: 1fr; }
    #prompt { height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; display: none; }
    HelpScreen { background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, action, show=False, priority=keys.startswith(("q", "tab", "shift")))
        for keys, action, _, _ in KEYS
    ]

    def __init__(
        self,
        watch: Watch,
        *,
        cost: Callable[[], Cost] | None = None,
        lives: Callable[[], bool] | None = None,
        default_path: str = "",
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self._watch = watch
        self._cost = cost
        self._lives = lives or (lambda: True)
        self._default_path = default_path
        self._shown_cost: Cost | None = None
        self._period = 0
        self._paused = False
        self._gone = False  # the recorder, without having finished its capture
        self._sorts: dict[Pane, int] = {}
        self._backwards = False
        self._wanted = self._searched = ""
        self._message = ""
        self._question: Spans = []  # what the prompt asks for
        self._answer: Callable[[str], None] | None = None

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Cells("head")
        yield Cells("tabs")
        with Container(id="body"):
            yield TableView("table")
            yield FlameView("flame")
        yield Input(id="prompt", select_on_focus=False)
        yield Cells("foot")

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one("#prompt", Input).cursor_blink = False
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        self._enter_pane()
        self.run_worker(self._look_again_and_again(), exit_on_error=True)

    def on_unmount(self) -> None:
        """Let go of the signal."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)

    def on_resize(self) -> None:
        """Fit into another size."""
        self.call_after_refresh(self.draw)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys to the page that tells of them, while it is shown."""
        return not isinstance(self.screen, HelpScreen)

    async def _look_again_and_again(self) -> None:
        next_look = time.monotonic()
        while True:
            next_look = max(next_look + PERIODS[self._period], time.monotonic())
            await asyncio.sleep(max(0.0, next_look - time.monotonic()))
            if self._paused:
                continue
            try:
                if not await self._watch.look():
                    break
            except WeftError as error:
                self._message = str(error)
            if self._cost:
                self._shown_cost = self._cost()
            if not self._lives():
                self._gone = True
                self._message = "the recorder has ended; what was seen stays"
                break
            self.draw()
        self._shown_cost = None
        self.draw()

    @property
    def _condition(self) -> str:
        model = self._watch.model
        if self._paused:
            return "paused"
        if model.ended or self._gone:
            return "ended"
        return "live"

    def draw(self) -> None:
        """Show what is known now. Nothing that is as it was is drawn anew."""
        try:
            head, tabs, foot = (self.query_one(f"#{name}", Cells) for name in ("head", "tabs", "foot"))
        except NoMatches:  # the help is shown, or all is ending
            return
        model = self._watch.model
        head.put_spans(head_of(model, self._shown_cost, self._condition))
        tabs.put_spans([tabs_of(model, self._wanted)])
        foot.put_spans([self._question or foot_of(self._message)])
        if model.settings.pane is Pane.FLAME:
            self.query_one(FlameView).show(model)
        else:
            table = table_of(model, self._sort, self._wanted, backwards=self._backwards)
            self.query_one(TableView).show(table)

    @property
    def _sort(self) -> int:
        """The column that the pane is sorted by."""
        pane = self._watch.model.settings.pane
        return self._sorts.get(pane, 2 if pane is Pane.THREADS else 0)

    def _change(self, **changes: object) -> None:
        self._watch.model.change(**changes)
        self.draw()

    def _enter_pane(self) -> None:
        is_flame = self._watch.model.settings.pane is Pane.FLAME
        table, flame = self.query_one(TableView), self.query_one(FlameView)
        table.display, flame.display = not is_flame, is_flame
        (flame if is_flame else table).focus()
        self.call_after_refresh(self.draw)

    def on_key(self) -> None:
        """Any key takes a message away."""
        if self._message:
            self._message = ""
            self.draw()

    def action_pause(self) -> None:
        """Pause, or go on."""
        self._paused = not self._paused
        self.draw()

    def action_pane(self, number: int) -> None:
        """Show a pane, by its number from 1 on."""
        self._watch.model.change(pane=list(Pane)[number - 1])
        self._enter_pane()

    def action_next_pane(self, step: int) -> None:
        """Show the next pane, or the one before."""
        at = list(Pane).index(self._watch.model.settings.pane)
        self.action_pane((at + step) % len(Pane) + 1)

    def action_sort(self, step: int) -> None:
        """Sort by another column."""
        choices = sortable(columns_of(self._watch.model))
        self._sorts[self._watch.model.settings.pane] = choices[(choices.index(self._sort) + step) % len(choices)]
        self.draw()

    def action_invert(self) -> None:
        """Turn the flame graph, or the order of a table, round."""
        if self._watch.model.settings.pane is Pane.FLAME:
            self.action_switch("inverted")
            return
        self._backwards = not self._backwards
        self.draw()

    def action_switch(self, setting: str) -> None:
        """Turn one of Settings on or off."""
        self._change(**{setting: not getattr(self._watch.model.settings, setting)})

    def action_reset(self) -> None:
        """Count from now on."""
        self._watch.reset()
        self._message = "reset: all is counted from now on"
        self.draw()

    def action_faster(self, step: int) -> None:
        """Look more often (-1) or less often."""
        self._period = min(max(self._period + step, 0), len(PERIODS) - 1)
        self._message = f"a look every {PERIODS[self._period]:g} s"
        self.draw()

    def action_move(self, key: str) -> None:
        """Move by a key."""
        if self._watch.model.settings.pane is Pane.FLAME:
            self.query_one(FlameView).move(key)
            return
        if key in ("left", "right"):
            self.action_thread(1 if key == "right" else -1)
            return
        table = self.query_one(TableView)
        steps = {"up": -1, "down": 1, "pageup": -table.page, "pagedown": table.page, "home": -(1 << 40), "end": 1 << 40}
        table.choose(table.chosen + steps[key])

    def action_enter(self) -> None:
        """Zoom into the chosen call; show the chosen thread alone."""
        pane = self._watch.model.settings.pane
        if pane is Pane.FLAME:
            self.query_one(FlameView).zoom()
        elif pane is Pane.THREADS:
            table = table_of(self._watch.model, self._sort, self._wanted, backwards=self._backwards)
            if table.rows:
                row = table.rows[min(self.query_one(TableView).chosen, len(table.rows) - 1)]
                self._watch.model.change(thread=row.thread.id)
                self.action_pane(1)

    def action_out(self) -> None:
        """Zoom out."""
        if self._watch.model.settings.pane is Pane.FLAME:
            self.query_one(FlameView).zoom(out=True)

    def action_per_thread(self) -> None:
        """Show one thread, or all."""
        if self._watch.model.settings.thread is not None:
            self._change(thread=None)
        else:
            self.action_thread(1)

    def action_thread(self, step: int) -> None:
        """Show the next thread alone, or the one before."""
        threads: list[Thread] = sorted(self._watch.model.threads.values(), key=lambda thread: thread.id)
        if not threads:
            return
        ids = [thread.id for thread in threads]
        now = self._watch.model.settings.thread
        at = ids.index(now) + step if now in ids else (0 if step > 0 else -1)
        self._change(thread=ids[at % len(ids)])

    def action_clear(self) -> None:
        """Show all rows."""
        self._wanted = ""
        self.draw()

    def action_ask_filter(self) -> None:
        """Ask what rows are to have in them."""
        self._ask("filter: what is shown has this in it; ", self._wanted, self._filter)

    def action_search(self) -> None:
        """Ask what to look for; where that is known, go to the next."""
        if self._searched:
            self._search(self._searched)
        else:
            self._ask("search; ", "", self._search)

    def action_ask_write(self) -> None:
        """Ask where to write to."""
        self._ask("write a capture to this path; ", self._default_path, self._write)

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpScreen(), lambda _: self.draw())

    def _filter(self, text: str) -> None:
        self._wanted = text
        self.draw()

    def _search(self, text: str) -> None:
        """Choose the next row with this text."""
        self._searched = text
        table = table_of(self._watch.model, self._sort, self._wanted, backwards=self._backwards)
        view = self.query_one(TableView)
        found = [number for number, row in enumerate(table.rows) if text.casefold() in table.text(row).casefold()]
        if not text or not found:
            self._searched = ""
            self._message = f"nothing has {text!r} in it" if text else ""
            self.draw()
            return
        view.choose(next((number for number in found if number > view.chosen), found[0]))

    def _write(self, path: str) -> None:
        if path:
            self.run_worker(self._write_to(Path(path).expanduser()))

    async def _write_to(self, path: Path) -> None:
        try:
            await asyncio.to_thread(self._watch.write, path)
            goes_on = "" if self._watch.model.ended or self._gone else "; the recording goes on"
            self._message = f"wrote {path}{goes_on}"
        except WeftError as error:
            self._message = str(error)
        self.draw()

    def _ask(self, words: str, value: str, answer: Callable[[str], None]) -> None:
        """Ask for a line of text in place of the keys; Escape takes the question back."""
        prompt = self.query_one("#prompt", Input)
        self._answer = answer
        prompt.value = value
        prompt.cursor_position = len(value)
        prompt.display = True
        self._question = [(f" {words}", "bold"), ("Enter takes it, Escape leaves it", "dim")]
        prompt.focus()
        self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the answer."""
        answer = self._answer
        self._close_prompt()
        if answer:
            answer(event.value.strip())

    def key_escape(self) -> None:
        """Leave the question; or the filter, and the thread."""
        if self._answer:
            self._close_prompt()
            return
        self._wanted = ""
        self._change(thread=None)

    def _close_prompt(self) -> None:
        self._question, self._answer = [], None
        self.query_one("#prompt", Input).display = False
        self._enter_pane()
