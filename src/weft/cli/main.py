"""The command line: one file a verb, loaded when it is asked for."""

from __future__ import annotations

import errno
import gc
import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from weft import __version__
from weft.errors import WeftError

_VERBS = {
    "record": "Record a program, running or launched, into a capture or another format.",
    "dump": "Print the stacks of a process or core file as they are now.",
    "report": "Show a capture, or write it in another format.",
    "top": "Watch a process, or a capture, live.",
    "view": "Open the interactive report in a browser, also of a recording that still runs.",
    "diff": "Compare two recordings: what got slower, what faster, and what is noise.",
    "demo": "Record a bundled example program and write its flame graph.",
    "doctor": "Say what will work here, what will not, and what to do about it.",
}


class _Verbs(click.Group):
    """Loads a verb's module when it is run: `weft report` must not pay for what `weft record` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command: click.Command = getattr(import_module(f"weft.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(_VERBS.items()))


EPILOG = """\b
Examples:
  weft record -p 1234                      until Ctrl-C; then a short report
  weft record -o app.html -- python app.py an interactive flame graph of a whole run
  weft dump 1234                           what is it doing right now?
  weft report app.weft                     where the time went
  weft top 1234                            what is it doing, second by second?
  weft view app.weft                       the same in a browser, while it is recorded
\b
Shell completion: eval "$(_WEFT_COMPLETE=bash_source weft)"  (or zsh_source, fish_source)
"""


@click.group(cls=_Verbs, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="weft %(version)s")
def cli() -> None:
    """A sampling profiler for Python programs that run native code. Its stacks are proven."""


def main() -> NoReturn:
    """Run the command line. An error that a user can do something about is one line on stderr, and exit status 1."""
    # What modules and recordings are made of lives on: to look for garbage among it took a tenth of the start.
    gc.set_threshold(50_000)
    try:
        status = _run()
        if sys.stdout:  # else it was closed before weft began
            sys.stdout.flush()
    except BrokenPipeError:
        status = 1  # whoever reads our output has enough of it
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        click.echo(f"weft: cannot write to standard output: {error.strerror}", err=True)
        status = 1
    # Not sys.exit(): to take all modules apart takes another tenth. What has to be put in order has been, by `with`.
    os._exit(status)


def _run() -> int:
    """Run the verb, and return the exit status."""
    try:
        status = cli.main(prog_name="weft", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        click.echo(_told(error), err=True)
        return error.exit_code
    except WeftError as error:
        click.echo(f"weft: {error}", err=True)
        return getattr(error, "exit_status", 1)
    return status if isinstance(status, int) else 0


def _told(error: click.ClickException) -> str:
    """A mistake on the command line as one line, as all other errors are."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"weft: {message}; see {context.command_path if context else 'weft'} --help"
