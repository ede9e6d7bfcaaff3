"""What `weft record` cannot do: each time one clear line on stderr, an exit status that is not 0, and no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from weft_command import assert_one_line, run_weft, running_weft, samples_in, wait_until

from weft import Capture, Collector, Mode
from weft.collect.sampler import Sampler
from weft.errors import TargetExitedError

BUSY = "import time\nend = time.time() + {}\nwhile time.time() < end: sum(range(1000))"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs no Python."""
    with subprocess.Popen(["sleep", "100"]) as process:
        yield process
        process.kill()


@pytest.fixture
def python() -> Iterator[subprocess.Popen[bytes]]:
    """A busy Python process."""
    with subprocess.Popen([sys.executable, "-c", BUSY.format(100)]) as process:
        yield process
        process.kill()


def gone() -> int:
    """A PID that nobody has."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def test_no_such_process(tmp_path: Path) -> None:
    pid = gone()
    assert f"no process has the PID {pid}" in assert_one_line(run_weft("record", "-p", pid, "-o", tmp_path / "x.weft"))
    assert not list(tmp_path.iterdir())


def test_a_process_that_has_just_ended() -> None:
    """GIVEN one that has ended since it was looked at THEN that is told, and no lack of permission."""
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
    sampler = Sampler(Collector.PTRACE, 99, Mode.CPU, subprocesses=False, native=False)
    try:
        with pytest.raises(TargetExitedError, match=f"process {ended.pid} has ended"):
            sampler.attach(ended.pid)
    finally:
        sampler.stop()
        ended.wait()


def test_a_process_without_python(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    line = assert_one_line(run_weft("record", "-p", sleeper.pid, "-o", tmp_path / "x.weft"))
    assert f"process {sleeper.pid} (sleep) runs no Python" in line
    assert not list(tmp_path.iterdir())
    assert sleeper.poll() is None


def test_a_kernel_thread(tmp_path: Path) -> None:
    """GIVEN kthreadd, which has no memory at all (in a PID namespace, number 2 is another process, or nobody's)."""
    assert_one_line(run_weft("record", "-p", 2, "-d", 0.1, "-o", tmp_path / "x.weft"))


@pytest.mark.parametrize("mode", ["gil", "cpu"])
@pytest.mark.parametrize("free", [one for one in all_interpreters() if one.free_threaded], ids=lambda one: one.name)
def test_a_python_without_a_gil(free: Interpreter, mode: str, tmp_path: Path) -> None:
    """GIVEN a free-threaded build WHEN its GIL's holder is wanted THEN the empty profile does not go unexplained."""
    command = [*free.command, "-c", BUSY.format(0.5)]
    run = run_weft("record", "--mode", mode, "-o", tmp_path / "x.weft", "--", *command)
    said = ["weft: a free-threaded Python has no GIL to hold: --mode cpu shows what runs"] if mode == "gil" else []
    *lines, last = run.stderr.splitlines()
    assert (run.returncode, lines) == (0, said)
    assert last.startswith(f"weft: wrote {tmp_path / 'x.weft'}: ")


def test_weft_itself(tmp_path: Path) -> None:
    """GIVEN the shell's own number, which weft takes over by exec: a process cannot trace itself."""
    shell = 'exec "$0" -m weft record -p $$ -o "$1"'
    run = subprocess.run(
        ["sh", "-c", shell, sys.executable, tmp_path / "x.weft"], capture_output=True, text=True, check=False
    )
    assert "itself" in assert_one_line(run)


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        ("/nowhere/at-all", 127, "No such file"),
        ("no-such-command-in-path", 127, "No such file"),
        ("/etc/passwd", 126, "Permission denied"),
        ("/tmp", 126, "Permission denied"),
    ],
)
def test_a_command_that_cannot_run(command: str, status: int, says: str, tmp_path: Path) -> None:
    """WHEN a command is mistyped THEN it is told with a shell's exit status, and an old capture of that name stays."""
    output = tmp_path / "x.weft"
    output.write_bytes(b"something of the user's")
    line = assert_one_line(run_weft("record", "-o", output, "--", command), status=status)
    assert command in line
    assert says in line
    assert output.read_bytes() == b"something of the user's"


def test_a_command_that_the_kernel_refuses(tmp_path: Path) -> None:
    """GIVEN an executable file that is no program: only exec(2) itself finds out."""
    script = tmp_path / "script"
    script.write_text("x = 1\n")
    script.chmod(0o755)
    assert "Exec format error" in assert_one_line(
        run_weft("record", "-o", tmp_path / "x.weft", "--", script), status=126
    )


@pytest.mark.parametrize("name", ["x.weft", "x.html", "x.folded"])
def test_a_folder_that_is_not_there(name: str, python: subprocess.Popen[bytes], tmp_path: Path) -> None:
    line = assert_one_line(run_weft("record", "-p", python.pid, "-d", 0.1, "-o", tmp_path / "nowhere" / name))
    assert "cannot write" in line


def test_the_output_is_a_folder(python: subprocess.Popen[bytes], tmp_path: Path) -> None:
    for name, format_ in [("folder.weft", []), ("folder", ["-f", "html"])]:
        (tmp_path / name).mkdir()
        arguments = ["-p", python.pid, "-d", 0.1, "-o", tmp_path / name, *format_]
        assert "cannot write" in assert_one_line(run_weft("record", *arguments))


def test_an_unknown_ending(tmp_path: Path) -> None:
    """THEN it is told before the command runs: nobody wants to do a long run twice."""
    mark = tmp_path / "mark"
    assert "x.foo" in assert_one_line(run_weft("record", "-o", tmp_path / "x.foo", "--", "touch", mark))
    assert not mark.exists()


def test_a_file_that_is_no_capture(tmp_path: Path) -> None:
    """THEN the file stays as it is, and the command does not run."""
    output, mark = tmp_path / "notes.weft", tmp_path / "mark"
    output.write_text("dear diary")
    line = assert_one_line(run_weft("record", "-o", output, "--", "touch", mark))
    assert "no weft capture" in line
    assert output.read_text() == "dear diary"
    assert not mark.exists()


def test_a_capture_that_is_being_written(python: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN a recording under way WHEN another wants its file THEN that one is refused, and the first is whole."""
    output = tmp_path / "x.weft"
    with running_weft("record", "--collector", "ptrace", "-p", python.pid, "-o", output) as first:
        wait_until(lambda: samples_in(output) > 0 or first.poll() is not None, "it records", 0.05)
        line = assert_one_line(run_weft("record", "-o", output, "--", sys.executable, "-c", ""))
        assert "another program has it open" in line
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate()
        assert first.returncode == 0, errors.decode()
    with Capture(output) as capture:
        assert capture.account()["samples_taken"] > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option"],
        ["-p", "x"],
        ["-p", "0"],
        ["-p", "-1"],
        ["-r", "0", "--", "true"],
        ["-r", "1mhz", "--", "true"],
        ["-r", "99999999999999999999", "--", "true"],
        ["-d", "-1", "--", "true"],
        ["-d", "nan", "--", "true"],
        ["--mode", "slow", "--", "true"],
        ["--collector", "magic", "--", "true"],
        ["-f", "gif", "--", "true"],
        [],
        ["-p", "1", "--", "true"],
    ],
)
def test_wrong_options(arguments: list[str], tmp_path: Path) -> None:
    """THEN the line says which and why, nothing is run, and the exit status is 2 (wrong usage)."""
    line = assert_one_line(run_weft("record", *arguments, cwd=tmp_path), status=2)
    assert line.endswith("; see weft record --help")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["recrod"], ["--recrod"]])
def test_no_such_verb(arguments: list[str]) -> None:
    assert assert_one_line(run_weft(*arguments), status=2).endswith("; see weft --help")


def test_a_full_disk_at_the_start(tmp_path: Path) -> None:
    """GIVEN /dev/full, a device that is always full, and no regular file either."""
    assert "/dev/full" in assert_one_line(run_weft("record", "-f", "weft", "-o", "/dev/full", "--", "true"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount what cannot be written")
@pytest.mark.parametrize("verb", ["record", "demo", "report"])
def test_no_place_for_scratch_files(verb: str, tmp_path: Path) -> None:
    """GIVEN a machine without any folder that tempfile would take THEN one line says what to do."""
    profile = tmp_path / "collapsed.txt"
    profile.write_text("main;work 5\n")
    output = Path("/dev/shm") / f"{tmp_path.name}-{os.getpid()}.html"
    arguments = {"record": ["--", "true"], "demo": [], "report": [profile]}[verb]
    read_only = "cd / && mount -o remount,bind,ro / && for folder in /tmp /var/tmp; do "
    read_only += 'mount --bind $folder $folder && mount -o remount,bind,ro $folder || exit; done; exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", read_only, "sh"]
    line = assert_one_line(run_weft(verb, "-o", output, *arguments, prefix=prefix))
    assert "No usable temporary directory" in line
    assert "TMPDIR=FOLDER" in line
    assert not output.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
class TestFullDisk:
    @pytest.fixture
    def small(self, tmp_path: Path) -> Iterator[Path]:
        """A file system of 300 KiB."""
        folder = tmp_path / "small"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", folder], check=True)
        yield folder
        subprocess.run(["umount", folder], check=True)

    # Ever new code objects: every sample needs new rows.
    GROWING = """
import time
end = time.time() + {}
n = 0
while time.time() < end:
    n += 1
    names = {{}}
    exec("def f_%d(n):\\n    return n if n == 0 else f_%d(n - 1)\\nfor k in range(50): f_%d(20)" % (n, n, n), names)
print("done")
"""

    def test_it_fills_up_while_a_process_is_recorded(self, small: Path) -> None:
        """THEN the recording ends with one line, what was written can be read, and the target runs on to its end."""
        with subprocess.Popen(
            [sys.executable, "-c", self.GROWING.format(12)], stdout=subprocess.PIPE, text=True
        ) as target:
            output = small / "x.weft"
            line = assert_one_line(run_weft("record", "-p", target.pid, "-r", "5khz", "-o", output))
            assert "No space left on device" in line
            assert "what was recorded before is kept" in line
            self.assert_readable(output)
            out, _ = target.communicate()
            assert (out, target.returncode) == ("done\n", 0)

    def test_it_fills_up_while_a_command_runs(self, small: Path) -> None:
        """THEN the command still runs to its end before weft does, so that a script goes on in its order."""
        output = small / "x.weft"
        run = run_weft("record", "-r", "5khz", "-o", output, "--", sys.executable, "-c", self.GROWING.format(8))
        assert run.stdout == "done\n"
        assert run.returncode == 1
        assert len(run.stderr.splitlines()) == 1
        assert "No space left on device" in run.stderr
        self.assert_readable(output)

    def test_no_room_for_the_report(self, small: Path) -> None:
        """GIVEN a disk without room for the flame graph THEN the recording is kept, and the line says where."""
        (small / "fill").write_bytes(bytes(250 << 10))
        code = BUSY.format(0.3)
        run = run_weft("record", "-r", "1khz", "-o", small / "x.html", "--", sys.executable, "-c", code)
        line = assert_one_line(run)
        assert "No space left on device" in line
        kept = line.partition("weft report ")[2].split()[0]
        assert run_weft("report", kept).returncode == 0
        assert not (small / "x.html").exists()
        Path(kept).unlink()
        Path(kept).parent.rmdir()

    def assert_readable(self, output: Path) -> None:
        report = run_weft("report", output)
        assert report.returncode == 0, report.stderr
        assert "has not ended" in report.stdout
