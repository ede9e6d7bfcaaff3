"""The keys of the live view, and the page that tells of them."""

from __future__ import annotations

from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from weft.live.cells import Cells
from weft.live.head import help_of

# Keys, the action, and what is said of it. As in htop and in Tachyon, Python's own profiler, where they have one.
KEYS: Final = (
    ("ctrl+c", "quit", "", ""),
    ("q,f10", "quit", "q F10", "quit; a recording by weft top ends, its target runs on"),
    ("p,space", "pause", "p Space", "pause and go on: the recording goes on meanwhile"),
    ("1", "pane(1)", "1 to 5, Tab F5", "functions, lines, flame graph (F5), threads, GIL"),
    ("2", "pane(2)", "", ""),
    ("3,f5", "pane(3)", "", ""),
    ("4", "pane(4)", "", ""),
    ("5", "pane(5)", "", ""),
    ("tab", "next_pane(1)", "", ""),
    ("shift+tab", "next_pane(-1)", "", ""),
    ("s,greater_than_sign,f6", "sort(1)", "s > F6, S <", "sort by the next column, by the one before"),
    ("S,less_than_sign", "sort(-1)", "", ""),
    ("slash,f4,backslash", "ask_filter", "/ F4 \\", "filter: show what has this text in it"),
    ("c", "clear", "c", "clear the filter"),
    ("f3", "search", "F3", "search; again: the next that has the text in it"),
    ("t", "per_thread", "t", "one thread, or all"),
    (
        "left_square_bracket",
        "thread(-1)",
        "[ ] Left Right",
        "the thread before, the next (in the flame graph: [ and ])",
    ),
    ("right_square_bracket", "thread(1)", "", ""),
    ("up,k", "move('up')", "arrows, PgUp ...", "move; in the flame graph, from call to call"),
    ("down,j", "move('down')", "", ""),
    ("left", "move('left')", "", ""),
    ("right", "move('right')", "", ""),
    ("pageup", "move('pageup')", "", ""),
    ("pagedown", "move('pagedown')", "", ""),
    ("home", "move('home')", "", ""),
    ("end", "move('end')", "", ""),
    ("enter", "enter", "Enter", "zoom into the call; of a thread: show it alone"),
    ("backspace", "out", "Backspace", "zoom out by a call"),
    ("a", "switch('since_start')", "a", "all since the start, or the last 10 s"),
    ("o", "switch('idle')", "o", "blocked time (off CPU), too"),
    ("n", "switch('native')", "n", "native frames on and off"),
    ("i", "switch('all_frames')", "i", "the interpreter's internals on and off"),
    ("I", "invert", "I", "invert the flame graph, or the order of a table"),
    ("r", "reset", "r", "reset: count from now on"),
    ("plus,equals_sign", "faster(-1)", "+ -", "look more often, less often"),
    ("minus", "faster(1)", "", ""),
    ("w", "ask_write", "w", "write what was recorded as a capture; the recording goes on"),
    ("h,question_mark,f1", "help", "h ? F1", "this page"),
)

FIRST_KEYS: Final = ("ctrl+c", "tab", "shift+tab")  # before what textual has them for


class HelpScreen(ModalScreen[None]):
    """The page of keys."""

    def compose(self) -> ComposeResult:
        """Make its one widget."""
        yield Cells("help")

    def on_resize(self) -> None:
        """Draw it."""
        told = [(keys, text) for _, _, keys, text in KEYS if keys]
        self.query_one("#help", Cells).put_spans(help_of(told))

    def on_key(self, event: events.Key) -> None:
        """Close it."""
        event.stop()
        self.dismiss()
