"""weft top: a live view of a process, or of a capture."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import click

from weft.cli.options import native_option, rate_option
from weft.collect.choose import Collector
from weft.errors import CaptureError, OutputError
from weft.session import Options

EPILOG = """\b
Examples:
  weft top 1234                    what is it doing, second by second?
  weft top -r 1khz -s 1234         closer, and with its subprocesses
  weft top app.weft                a recording: one that still runs is followed
\b
In the view: q quits, h tells the keys, w writes what was seen as a capture.
"""


@click.command(epilog=EPILOG)
@click.argument("target", metavar="(PID | CAPTURE)")
@rate_option
@click.option(
    "--collector",
    type=click.Choice([collector.value for collector in Collector]),
    default="auto",
    show_default=True,
    help="As of weft record -p.",
)
@click.option("-s", "--subprocesses", is_flag=True, help="Its subprocesses, too.")
@native_option
def top(target: str, rate: int, collector: str, *, subprocesses: bool, native: bool) -> None:
    """Show where a running process, or a capture, spends its time: functions, lines, stacks, threads, the GIL.

    A process is recorded for as long as it is looked at. It runs on, whatever happens to weft.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise OutputError("weft top needs a terminal; weft record and weft report write to files and pipes")
    options = Options(rate, None, collector=Collector(collector), subprocesses=subprocesses, native=native)
    with ExitStack() as opened:
        if target.isdecimal():
            _show(int(target), None, options, opened)
        elif Path(target).exists():
            _show(None, Path(target), options, opened)
        else:
            raise CaptureError(f"{target!r} is neither a PID nor a file")


def _show(pid: int | None, path: Path | None, options: Options, opened: ExitStack) -> None:
    from weft.limits import many_files
    from weft.live.head import CostMeter
    from weft.live.model import Settings
    from weft.live.recorder import LiveRecorder
    from weft.live.top import TopApp
    from weft.live.watch import Watch

    opened.enter_context(many_files())  # of modules whose functions are named
    recorder = opened.enter_context(LiveRecorder(pid, options)) if pid is not None else None
    shown = recorder.path if recorder else path
    assert shown is not None
    settings = Settings(since_start=recorder is None, native=options.native)
    watch = opened.enter_context(closing(Watch(shown, settings)))
    meter = CostMeter(recorder.pid if recorder else None)
    app = TopApp(
        watch,
        cost=meter,
        lives=recorder.is_running if recorder else None,
        default_path=f"top-{shown.stem if pid is None else pid}-{time.strftime('%Y%m%dT%H%M%S')}.weft",
    )
    app.run(mouse=False)  # so that text can be marked
    if app.return_code:
        sys.exit(app.return_code)
