"""Where exports go: the format by the ending, whole files or none, and clear words where it cannot be."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from capture.builder import CaptureBuilder, frame

from weft.capture import Capture
from weft.errors import CaptureError, OutputError
from weft.export import ENDINGS, FORMATS, format_of, write


@pytest.fixture
def capture(tmp_path: Path) -> Capture:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame("</script>\x1b[31m;", 3), frame("g", 4)])
    with Capture(builder.close()) as opened:
        yield opened


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written_and_known_by_its_ending(capture: Capture, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"out{ENDINGS[name]}"
    assert format_of(path) == name
    write(capture, name, path)
    assert path.stat().st_size > 100 or name == "collapsed"
    assert b"\x1b" not in path.read_bytes() or path.suffix == ".gz"
    assert {entry.name for entry in tmp_path.iterdir()} == {"x.weft", path.name}


def test_endings() -> None:
    assert format_of(Path("a.b.weft")) is None
    assert format_of(Path("x.gecko.json.gz")) == "gecko"
    for name in ("x.json", "x", "x.pb", "weft"):
        with pytest.raises(OutputError, match=r"no format is known by the name .*\.speedscope\.json"):
            format_of(Path(name))


def test_a_new_file_has_the_usual_permissions_and_an_old_one_keeps_its_own(capture: Capture, tmp_path: Path) -> None:
    """Though it is made under another name first, privately."""
    umask = os.umask(0o027)
    try:
        write(capture, "collapsed", tmp_path / "new.folded")
        assert stat.S_IMODE((tmp_path / "new.folded").stat().st_mode) == 0o640
    finally:
        os.umask(umask)
    (tmp_path / "new.folded").chmod(0o604)
    (tmp_path / "link.folded").symlink_to("new.folded")
    write(capture, "collapsed", tmp_path / "link.folded")
    assert stat.S_IMODE((tmp_path / "new.folded").stat().st_mode) == 0o604
    assert (tmp_path / "link.folded").is_symlink()


def test_what_cannot_be_written(capture: Capture, tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "no" / "x.folded", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (Path("/dev/full"), "No space left on device"),
        (tmp_path / ("x" * 300 + ".folded"), "File name too long"),
    ):
        with pytest.raises(OutputError, match=f"cannot write .*: {reason}"):
            write(capture, "collapsed", path)


def test_a_damaged_capture_leaves_an_old_output_alone(tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame("f")])
    builder.writer.add_runs(1, 0, 1, b"\xff")
    builder.close()
    out = tmp_path / "out.folded"
    out.write_text("old")
    with Capture(tmp_path / "x.weft") as opened, pytest.raises(CaptureError):
        write(opened, "collapsed", out)
    assert out.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_device_is_written_to_and_not_replaced(capture: Capture) -> None:
    write(capture, "collapsed", Path("/dev/null"))
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_binary_is_not_shown_on_a_terminal(capture: Capture, tmp_path: Path) -> None:
    """On a real terminal; into a pipe it goes."""
    code = "import sys; from pathlib import Path; from weft.capture import Capture; from weft.export import write\n"
    code += "write(Capture(Path(sys.argv[1])), 'pprof', None)"
    command = [sys.executable, "-c", code, str(capture.path)]
    main, terminal = os.openpty()
    result = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, text=True, check=False)
    os.close(terminal)
    os.close(main)
    assert "pprof is binary and a terminal cannot show it; write it to a file with -o FILE" in result.stderr
    piped = subprocess.run(command, capture_output=True, check=True)
    assert piped.stdout.startswith(b"\x1f\x8b")
