"""`%load_ext weft`: the magics %weft and %%weft of IPython and Jupyter, with the report below the cell."""

from __future__ import annotations

import argparse
import html
import shlex
from typing import TYPE_CHECKING, Any, Final

from weft.collect.sampler import Mode
from weft.errors import WeftError
from weft.export import render
from weft.profile.tables import View
from weft.recording import Recording

if TYPE_CHECKING:
    from weft.results import Results

RATE_HZ: Final = 499  # a cell is short
HEIGHT: Final = 600  # CSS pixels


class _Parser(argparse.ArgumentParser):
    """Says what is wrong instead of ending the program."""

    def error(self, message: str) -> Any:
        """Raises it."""
        raise WeftError(f"%weft: {message}; %weft --help lists the options")


def load(shell: Any) -> None:
    """What %load_ext calls."""
    magics = _Magics(shell)
    shell.register_magic_function(magics.cell, "line_cell", "weft")


class _Magics:
    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def cell(self, line: str, cell: str | None = None) -> None:
        """Record a cell (%%weft [options]) or a statement (%weft [options] statement), and show the report."""
        from IPython.core.error import UsageError
        from IPython.display import display

        try:
            options, statement = _arguments(line, with_statement=cell is None)
            if options is None:
                return
            recording = Recording(
                options.output, rate_hz=options.rate, mode=Mode[options.mode.upper()], native=not options.no_native
            )
            with recording:
                self._shell.run_cell(statement if cell is None else cell)
        except WeftError as error:
            raise UsageError(f"weft: {error}") from error
        for warning in recording.warnings:
            print(f"weft: {warning}")
        with recording.results as results:
            display(_shown(results, View(idle=options.idle), options.height), raw=True)


def _arguments(line: str, *, with_statement: bool) -> tuple[argparse.Namespace | None, str]:
    """The options and what is left of the line; None where help was asked for."""
    parser = _Parser(prog="%weft" if with_statement else "%%weft", add_help=False)
    parser.add_argument("-h", "--help", action="store_true", help="show this")
    parser.add_argument("-r", "--rate", type=_rate, default=RATE_HZ, help="samples a second (%(default)s)")
    parser.add_argument("--mode", choices=("wall", "cpu", "gil"), default="wall", help="as of weft record")
    parser.add_argument("--no-native", action="store_true", help="Python frames alone")
    parser.add_argument("--idle", action="store_true", help="show the time in which threads were blocked, too")
    parser.add_argument("-o", "--output", metavar="FILE", help="keep the recording, too: a capture or another form")
    parser.add_argument("--height", type=int, default=HEIGHT, help="of the report, in pixels (%(default)s)")
    words = _options_of(line) if with_statement else shlex.split(line)
    options = parser.parse_args(words)
    if options.help:
        parser.print_help()
        return None, ""
    statement = line
    for _ in words:
        statement = statement.lstrip().partition(" ")[2]
    if with_statement and not statement.strip():
        raise WeftError("%weft needs a statement, as %weft work(); a cell begins with %%weft")
    return options, statement


def _options_of(line: str) -> list[str]:
    """The words of a line that are options: those before the statement."""
    words: list[str] = []
    flags = {"--no-native", "--idle", "-h", "--help"}
    rest = iter(line.split())
    for word in rest:
        if not word.startswith("-"):
            break
        words.append(word)
        if word not in flags and "=" not in word:
            words.extend([value for value in [next(rest, None)] if value is not None])
    return words


def _rate(text: str) -> int:
    rate = int(text)
    if not 1 <= rate <= 20_000:
        raise argparse.ArgumentTypeError(f"{text} is no rate from 1 to 20,000 Hz")
    return rate


def _shown(results: Results, view: View, height: int) -> dict[str, str]:
    """The report as a notebook shows it, and as a terminal does."""
    page = b"".join(render(results.capture, "html", view)).decode()
    text = b"".join(render(results.capture, "text", view)).decode()
    # A frame of its own: neither the page's styles and scripts nor those of the notebook reach each other.
    frame = (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads" title="weft" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )
    return {"text/plain": text, "text/html": frame}
