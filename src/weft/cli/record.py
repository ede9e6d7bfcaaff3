"""weft record: records a program into a capture, or straight into another format."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from weft.capture import Capture
from weft.cli.options import idle_option, native_option, rate_option
from weft.cli.progress import ProgressLine
from weft.collect.choose import Collector
from weft.collect.filter import Filter
from weft.collect.sampler import Mode
from weft.errors import OutputError, WeftError
from weft.export import FORMATS, check_mode, format_of, write
from weft.profile.names import escape
from weft.profile.tables import View
from weft.scratch import new_folder
from weft.session import Options, Result, record_command, record_machine, record_process
from weft.target.launch import shell_status
from weft.target.process import Process

_MOST_FAILURES = 5  # that are told, of processes whose Python cannot be read
EPILOG = """\b
Examples:
  weft record -p 1234                          until Ctrl-C, into NAME-PID-TIME.weft, with a short report
  weft record -p 1234 -d 30 -o app.html        half a minute, as an interactive flame graph
  weft record -r 1khz -o run.weft -- python app.py --size 10
  weft record -s -o all.speedscope.json -- make test
  weft record -p 1234 --mode gil -d 10         who holds the GIL?
  weft record -p 1234 --mode alloc -d 10       what allocates memory?
  weft record -a -d 10 -o all.html             everything that the machine computes
"""


@click.command(
    epilog=EPILOG,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("-p", "--pid", type=click.IntRange(min=1), help="Record this running process.")
@click.option("-a", "--all", "machine", is_flag=True, help="Record all processes of the machine, as root.")
@click.option("--cgroup", metavar="PATH", help="With -a: only processes in this cgroup, or below it.")
@click.option("--user", metavar="NAME", help="With -a: only processes of this user.")
@click.option("--comm", metavar="NAME", help="With -a: only processes of this name, as ps tells it.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to; its ending is the format."
)
@click.option(
    "-f", "--format", "name", type=click.Choice(["weft", *FORMATS]), help="The format, whatever FILE ends with."
)
@click.option(
    "-d", "--duration", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End after this time."
)
@rate_option
@click.option("-s", "--subprocesses", is_flag=True, help="Record its subprocesses too, from their first instruction.")
@click.option(
    "--mode",
    type=click.Choice(["wall", "cpu", "gil", "alloc"]),
    help="wall: every thread, with its state, the default; cpu: by CPU time, the default of -a; gil: whoever holds the "
    "GIL; alloc: by the bytes that are asked of libc (malloc and its kin), as root.",
)
@click.option(
    "--collector",
    type=click.Choice([collector.value for collector in Collector]),
    default="auto",
    show_default=True,
    help="bpf: in the kernel, as root, the default of -p and -a; ptrace: the default of a command, and of -p where bpf "
    "cannot run; peek: without either, beside a debugger, and biased where there are no CPU clocks.",
)
@native_option
@idle_option
@click.argument("command", nargs=-1, metavar="[-- COMMAND ...]")
def record(
    pid: int | None,
    output: Path | None,
    name: str | None,
    duration: float | None,
    rate: int,
    mode: str | None,
    collector: str,
    cgroup: str | None,
    user: str | None,
    comm: str | None,
    command: tuple[str, ...],
    *,
    machine: bool,
    subprocesses: bool,
    native: bool,
    idle: bool,
) -> int:
    """Record a running process (-p PID), a command from its start to its end (-- COMMAND ...), or the machine (-a).

    Every recording is a capture (.weft), which `weft report` shows and converts. With a FILE of another format, the
    capture is made, converted and removed.
    """
    if (pid is not None) + bool(command) + machine != 1:
        raise click.UsageError("give one of -p PID, -a and -- COMMAND ...")
    filter_ = Filter(cgroup, user, comm)
    if not machine and filter_ != Filter():
        raise click.UsageError("--cgroup, --user and --comm choose among the processes of -a")
    if machine and (subprocesses or mode in ("gil", "alloc")):
        raise click.UsageError(
            "-a records all processes, in mode cpu or wall: it takes no -s, and no mode gil or alloc"
        )
    if duration is not None and math.isnan(duration):
        raise click.UsageError("nan is no duration")
    given = click.get_current_context().get_parameter_source("rate")
    if mode == "alloc" and given is not ParameterSource.DEFAULT:
        raise click.UsageError("--mode alloc takes no -r: it samples bytes, one sample in 512 KiB on average")
    options = Options(
        rate,
        duration,
        Mode[(mode or ("cpu" if machine else "wall")).upper()],
        Collector(collector),
        subprocesses,
        native,
        filter_ if machine else None,
        give_up_privileges=machine or pid is not None,
    )
    view = View(idle=idle)
    format_ = _format(output, name)
    if format_ is not None:
        check_mode(format_, options.mode.name.lower())
    path = output or Path(_default_name(pid, command, format_))
    if format_ is None:
        result = _record(path, pid, command, options)
        if output is None:
            _print_report(result, view)
        _tell_written(path, result, f" (weft report {path} shows {'them' if output else 'more'})")
        return _status(result)
    _check_writable(path)
    scratch = new_folder() / "recording.weft"
    result = _record(scratch, pid, command, options)
    try:
        with Capture(scratch) as capture:
            write(capture, format_, path, view)
    except WeftError as error:
        raise OutputError(f"{error}; the recording is kept: weft report {scratch} -o FILE") from error
    scratch.unlink()
    scratch.parent.rmdir()
    _tell_written(path, result)
    return _status(result)


def _record(path: Path, pid: int | None, command: Sequence[str], options: Options) -> Result:
    """Make the capture, and tell what could not be done."""
    with ProgressLine(sys.stderr) as watch:
        if options.machine:
            result = record_machine(path, options, watch)
        elif pid is not None:
            result = record_process(pid, path, options, watch)
        else:
            result = record_command(command, path, options, watch)
    for failure in result.told_failures()[:_MOST_FAILURES]:
        click.echo(f"weft: {failure}", err=True)
    if (more := len(result.failures) - _MOST_FAILURES) > 0:
        click.echo(f"weft: and the Python of {more:,} more processes", err=True)
    for warning in result.warnings:
        click.echo(f"weft: {escape(warning)}", err=True)
    if options.mode is Mode.GIL and any(runtime.layout.free_threaded for runtime in result.runtimes):
        click.echo("weft: a free-threaded Python has no GIL to hold: --mode cpu shows what runs", err=True)
    if not result.runtimes and not result.failures and not options.machine:
        advice = "" if options.subprocesses else "; with -s its subprocesses are recorded, too"
        click.echo(f"weft: no Python was found in {_told(pid, command)}{advice}", err=True)
    return result


def _tell_written(path: Path, result: Result, advice: str = "") -> None:
    samples = result.account["samples_taken"]
    click.echo(f"weft: wrote {path}: {samples:,} sample{'s' * (samples != 1)}{advice}", err=True)


def _status(result: Result) -> int:
    return 0 if result.exit_status is None else shell_status(result.exit_status)


def _print_report(result: Result, view: View) -> None:
    """Print the short report to stderr: stdout is a launched command's."""
    from weft.report.text import render

    sys.stderr.flush()
    with Capture(result.capture) as capture:
        for chunk in render(capture, view, terminal=sys.stderr.isatty()):
            sys.stderr.buffer.write(chunk)
    sys.stderr.buffer.flush()


def _format(output: Path | None, name: str | None) -> str | None:
    """Return the format to convert to, None for a capture."""
    if name is not None:
        return None if name == "weft" else name
    return None if output is None else format_of(output)


def _default_name(pid: int | None, command: Sequence[str], format_: str | None) -> str:
    from weft.export import CAPTURE_ENDING, ENDINGS

    started = Path(command[0]).name if command else os.uname().nodename
    program = started if pid is None else Process(pid).name
    program = re.sub(r"[^A-Za-z0-9._-]+", "_", program).strip("._") or "python"
    number = pid if pid is not None else os.getpid()
    ending = ENDINGS[format_] if format_ else CAPTURE_ENDING
    return f"{program}-{number}-{time.strftime('%Y%m%dT%H%M%S')}{ending}"


def _check_writable(path: Path) -> None:
    """Find out before the recording that its result cannot be written, rather than after it."""
    if path.is_dir() or not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise OutputError(f"cannot write {path}: it is a folder, or in one that is not ours to write")


def _told(pid: int | None, command: Sequence[str]) -> str:
    return f"process {pid}" if pid is not None else repr(command[0])
