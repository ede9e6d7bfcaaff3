"""The text report: the right numbers, in the width there is, and nothing that could steer a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from capture.builder import META, SECOND, CaptureBuilder, allocations, frame
from click.testing import CliRunner

from weft.capture import Capture, CaptureWriter
from weft.cli.report import report
from weft.errors import CaptureError, OutputError
from weft.profile.tables import View
from weft.report import text
from weft.report.console import FILE_WIDTH
from weft.report.data import as_dict
from weft.sample import State

MS = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Shares that are easy to see: 60 % and 30 % in two functions that main calls, 10 % in main itself."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1240, "other")
    main = frame("main", 3, first_line=2)
    builder.run([main, frame("hot", 11, first_line=10)], 600 * MS, ticks=600)
    builder.run([main, frame("warm", 21, first_line=20), frame("warm", 22, first_line=20)], 300 * MS, ticks=300)
    builder.run([main], 100 * MS, thread=2, state=State.GIL, ticks=100)
    builder.run([frame("lock", 31, first_line=30)], 2 * SECOND, thread=2, state=State.BLOCKED, ticks=2000)
    return builder.close()


def shown(path: Path, *, idle: bool = False) -> str:
    with Capture(path) as capture:
        return b"".join(text.render(capture, View(idle=idle), terminal=False)).decode()


def section(report: str, title: str) -> list[str]:
    return report.partition(f"\n{title}\n")[2].partition("\n\n")[0].splitlines()


def test_shares_and_times(path: Path) -> None:
    lines = section(shown(path), "Functions by their own time")
    rows = [re.split(r"  +", line.strip()) for line in lines[1:]]
    assert [(row[0], row[1], row[2], row[3], row[-2], row[-1]) for row in rows] == [
        ("60.0 %", "600 ms", "60.0 %", "600 ms", "hot", "app.py:10"),
        ("30.0 %", "300 ms", "30.0 %", "300 ms", "warm", "app.py:20"),  # it recurses, and counts once
        ("10.0 %", "100 ms", "100 %", "1.00 s", "main", "app.py:2"),
    ]
    totals = section(shown(path), "Functions by time with all that they call")
    assert [line.split()[-2] for line in totals[1:]] == ["main", "hot", "warm"]
    hottest = section(shown(path), "Hottest lines")
    assert [line.split()[-1] for line in hottest[1:]] == ["app.py:11", "app.py:22", "app.py:3"]


def test_blocked_time_is_told_but_shown_on_request_only(path: Path) -> None:
    assert "lock  app.py" not in shown(path)
    assert "1.00 s of active thread time in 1,000 samples" in shown(path)
    assert section(shown(path), "Threads")[1:] == [
        "   900 ms       0 s       0 s  MainThread (1234)",
        "      0 s    100 ms    2.00 s  other (1240)",
    ]
    idle = shown(path, idle=True)
    assert "3.00 s of thread time, blocked threads included, in 3,000 samples" in idle
    assert section(idle, "Functions by their own time")[1].split()[-2:] == ["lock", "app.py:30"]


def test_it_ends_with_the_account(path: Path) -> None:
    subjects = [line.split()[0] for line in shown(path).partition("\nThe honest account\n")[2].splitlines()]
    assert subjects == ["samples", "lost", "stacks", "read", "held", "profiler", "collector"]


def test_a_recording_without_samples_says_so(tmp_path: Path) -> None:
    CaptureWriter(tmp_path / "empty.weft", META).close()
    assert "No samples." in shown(tmp_path / "empty.weft")
    builder = CaptureBuilder(tmp_path / "idle.weft")
    builder.run([frame("f")], state=State.BLOCKED)
    assert "No samples; every thread was blocked, --idle shows where." in shown(builder.close())


def test_time_without_python_frames_is_not_hidden(tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([], 3 * MS)
    builder.run([frame("f")], MS)
    lines = section(shown(builder.close()), "Functions by their own time")
    assert lines[1].startswith("  75.0 %")
    assert lines[1].endswith("[no Python frame]")
    assert lines[2].endswith("f  app.py:1")


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Rich's markup, ANSI escapes, right-to-left overrides, and names of a thousand characters."""
    names = ["[red]x[/red]", "\x1b]0;title\x07", "\u202eevil", "x" * 1000, ":smile:", "日本" * 60]
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_process(2, 1300, ["\x1b[2J", "\n"], 1)
    builder.add_thread(2, 2, 1300, "\x1b[2J\nx")
    for name in names:
        builder.run([frame(name, 1, f"/srv/{name}.py")])
    report = shown(builder.close())
    assert all(line.isprintable() for line in report.splitlines())
    assert "[red]x[/red]  [red].py" not in report
    assert r"\x1b]0;title\x07" in report
    assert r"\x1b[2J\x0ax (1300) of \x1b[2J 1300" in report
    from rich.cells import cell_len

    assert max(cell_len(line) for line in report.splitlines()) <= FILE_WIDTH


@pytest.mark.parametrize("columns", [60, 132])
def test_the_width_of_the_terminal_is_respected(path: Path, columns: int) -> None:
    """On a real pseudo-terminal, where colours are on; every line must fit, though names are long."""
    main, terminal = pty.openpty()
    code = "from weft.cli.report import report; report()"
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=terminal, stderr=terminal, env=env
    ) as process:
        os.close(terminal)
        output = b""
        while True:
            try:
                output += os.read(main, 65536)
            except OSError:  # the other end was closed
                break
    os.close(main)
    assert process.returncode == 0
    assert b"\x1b[" in output
    lines = re.sub(r"\x1b\[[0-9;]*m", "", output.decode()).split("\r\n")
    assert max(map(len, lines)) <= columns
    assert any("hot" in line for line in lines)


def test_piped_output_has_no_colours(path: Path) -> None:
    assert "\x1b" not in shown(path)


def test_data_holds_what_the_text_shows(path: Path) -> None:
    with Capture(path) as capture:
        data = json.loads(json.dumps(as_dict(capture, View())))
    functions = [(one["function"], one["first_line"], one["self_ns"], one["total_ns"]) for one in data["functions"]]
    assert functions == [
        ("hot", 10, 600 * MS, 600 * MS),
        ("warm", 20, 300 * MS, 300 * MS),
        ("main", 2, 100 * MS, SECOND),
        ("lock", 30, 0, 0),
    ]
    assert [(one["line"], one["ticks"]) for one in data["lines"][:3]] == [(11, 600), (22, 300), (3, 100)]
    assert data["threads"][1]["blocked_ns"] == 2 * SECOND
    assert (data["weight_ns"], data["ticks"], data["idle"]) == (SECOND, 1000, False)
    assert data["account"]["complete"] is True
    assert data["processes"][0]["command"] == ["python3", "/srv/app.py"]


# --- the verb


def run(*arguments: object) -> str:
    result = CliRunner().invoke(report, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_verb(path: Path, tmp_path: Path) -> None:
    assert "Hottest lines" in run(path)
    assert run(path, "-f", "collapsed").splitlines()[0].startswith("main (app.py:3)")
    assert json.loads(run(path, "--json", "--idle"))["weight_ns"] == 3 * SECOND
    run(path, "-o", tmp_path / "out.speedscope.json")
    assert json.loads((tmp_path / "out.speedscope.json").read_text())["shared"]
    run(path, "-f", "collapsed", "-o", tmp_path / "odd.name")
    assert (tmp_path / "odd.name").read_text() == run(path, "-f", "collapsed")
    run(path, "--json", "-o", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["ticks"] == 1000


def test_what_the_verb_refuses(path: Path, tmp_path: Path) -> None:
    for arguments, reason in (
        ([path, "-o", tmp_path / "y.weft"], "only recording makes .weft files"),
        ([path, "-o", tmp_path / "y.xyz"], "no format is known"),
        ([path, "--json", "-o", tmp_path / "no" / "x"], "No such file"),
        ([tmp_path / "gone.weft"], "cannot read"),
        ([__file__], "is no weft capture"),
    ):
        with pytest.raises((OutputError, CaptureError), match=reason):
            run(*arguments)
    assert CliRunner().invoke(report, [str(path), "--json", "-f", "text"]).exit_code == 2


def test_allocations(tmp_path: Path) -> None:
    """GIVEN a capture of mode alloc THEN bytes and allocations stand where times do, libc's functions are left out, and
    what native code allocates is its Python line's."""
    path = allocations(tmp_path / "x.weft")
    report_ = shown(path)
    assert "4.00 GiB allocated, as estimated by samples, in 3,004 allocations" in report_
    own = [
        re.split(r"  +", line.strip()) for line in section(report_, "Functions by what they allocate themselves")[1:]
    ]
    assert [(*row[:4], row[-2]) for row in own] == [("100 %", "4.00 GiB", "100 %", "4.00 GiB", "make_array")]
    lines = section(report_, "Lines of Python, with the native code that they call")
    rows = [re.split(r"  +", line.strip()) for line in lines[1:]]
    assert [(*row[:3], row[-2], row[-1]) for row in rows] == [
        ("75.0 %", "3.00 GiB", "3,000", "parse", "app.py:9"),
        ("25.0 %", "1.00 GiB", "4", "main", "app.py:3"),
    ]
    assert "4.00 GiB in 3,010 calls, counted one by one" in report_
    assert "2 (code-gone 2), 3.00 MiB" in report_
    assert "malloc" not in report_
    with Capture(path) as capture:
        data = as_dict(capture, View())
        everything = as_dict(capture, View(all_frames=True))
    assert data["weight_bytes"] == 4_294_967_000
    assert data["threads"][0]["allocated_bytes"] == 4_294_967_000
    assert data["functions"][0]["self_bytes"] == 4_294_967_000
    assert data["account"]["lost"] == [{"reason": "code-gone", "count": 2, "weight_bytes": 3 << 20}]
    assert {row["function"]: row["self_bytes"] for row in everything["functions"] if row["self_bytes"]} == {
        "malloc": 3_221_225_000,
        "realloc": 1_073_742_000,
    }
