"""weft view: the interactive report on loopback, which follows a recording while it runs."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path

import click

from weft.cli.options import all_frames_option, idle_option
from weft.errors import OutputError
from weft.live.feed import Feed
from weft.live.serve import ADDRESS, Server
from weft.profile.tables import View

EPILOG = """\b
Examples:
  weft record -p 1234 -o app.weft &
  weft view app.weft                      what it does, while it does it
  weft view -p 8000 --no-browser app.weft   for ssh -L 8000:127.0.0.1:8000
"""


@click.command(epilog=EPILOG)
@click.argument("capture", type=click.Path(path_type=Path))
@click.option("-p", "--port", type=click.IntRange(0, 65535), default=0, help="Of 127.0.0.1; by default any free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@idle_option
@all_frames_option
def view(capture: Path, port: int, *, no_browser: bool, idle: bool, all_frames: bool) -> None:
    """Open the interactive report of CAPTURE in a browser, until Ctrl-C. It follows a recording that still runs.

    CAPTURE may be another tool's profile: collapsed stacks, speedscope's or pprof's format.
    """
    feed = Feed(capture, View(idle=idle, all_frames=all_frames))
    try:
        feed.data()  # what is damaged is said here, and the page has it at once
        with _server(feed, port) as server:
            click.echo(f"weft: {server.url}", err=True)
            if not no_browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
                webbrowser.open(server.ticket_url)
            server.serve_forever()
    except KeyboardInterrupt:
        os._exit(0)  # a large capture may be being read, which nobody has to wait for


def _server(feed: Feed, port: int) -> Server:
    try:
        return Server(feed, port)
    except OSError as error:
        raise OutputError(f"cannot serve at {ADDRESS}:{port}: {error.strerror}; choose another --port") from error
