"""What a capture holds, when it can be read, and what it refuses."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from capture.builder import META, SECOND, START_NS, CaptureBuilder, frame

from weft.capture import Capture, CaptureWriter, Mapping, Process, Standing, Thread
from weft.errors import CaptureError, CaptureVersionError, NotACaptureError, OutputError
from weft.profile.tables import Profile, View
from weft.sample import Frame, FrameFlag, FrameKind, State

A, B, C = frame("a", 1), frame("b", 2), frame("c", 3)


def record(path: Path, runs: int = 10) -> Path:
    builder = CaptureBuilder(path)
    for i in range(runs):
        builder.run([A, B] if i % 2 else [A, C])
    return builder.close()


def ticks(path: Path) -> int:
    with Capture(path) as capture:
        return Profile.from_capture(capture, View(idle=True)).ticks


def test_everything_written_comes_back(tmp_path: Path) -> None:
    """Each table with what it can hold at its edges: addresses above 2**63, non-ASCII and lone surrogates in names,
    NUL, a process that ended by a signal, columns, flags.
    """
    odd = Frame(FrameKind.PYTHON, "Ж\udcff\0;", "/tmp/\n.py", 7, 5, 8, 3, 9, FrameFlag.INCOMPLETE)
    with CaptureWriter(tmp_path / "x.weft", {**META, "command": "weft \udc80"}) as writer:
        writer.add_process(1, 10, None, ["python", "é\udc80"], None, 5)
        writer.add_process(2, 11, 1, [], "CPython 2.7.18", 6)
        writer.set_runtime(1, "CPython 3.13.0")
        writer.end_process(2, 9, -9)
        writer.add_thread(1, 1, 10, "main", 5)
        writer.rename_thread(1, "main thread")
        writer.end_thread(1, 8)
        writer.add_mapping(1, 0xFFFFFFFFFF600000, 0xFFFFFFFFFF601000, 0, "[vsyscall]", "ab12", 5)
        writer.add_frame(1, odd)
        writer.add_stacks([(1, 0, 1), (2, 1, 1)])
        writer.set_standing(1, 2, State.BLOCKED, 7)
        writer.set_losses(1, {"unreadable": (3, 500)})
        writer.set_losses(1, {"unreadable": (4, 600)})
        writer.set_account({"samples_taken": 12})
        writer.commit(START_NS + 9)
    with Capture(tmp_path / "x.weft") as capture:
        assert list(capture.processes()) == [
            Process(1, 10, None, ("python", "é\\udc80"), "CPython 3.13.0", 5, None, None),
            Process(2, 11, 1, (), "CPython 2.7.18", 6, 9, -9),
        ]
        assert list(capture.threads()) == [Thread(1, 1, 10, "main thread", 5, 8)]
        assert list(capture.mappings()) == [
            Mapping(1, 0xFFFFFFFFFF600000, 0xFFFFFFFFFF601000, 0, "[vsyscall]", "ab12", 5)
        ]
        clean = Frame(FrameKind.PYTHON, "Ж\\udcff\0;", "/tmp/\n.py", 7, 5, 8, 3, 9, FrameFlag.INCOMPLETE)
        assert list(capture.frames()) == [(1, (clean,))]
        assert list(capture.stacks()) == [(1, 0, 1), (2, 1, 1)]
        assert list(capture.standing()) == [Standing(1, 2, State.BLOCKED, 7)]
        assert [(loss.reason, loss.count, loss.weight_ns) for loss in capture.losses()] == [("unreadable", 4, 600)]
        assert capture.account() == {"samples_taken": 12}
        end = {"written_ns": START_NS + 9, "end_ns": START_NS + 9, "ended": ""}
        assert capture.meta == {**META, "command": "weft \\udc80", **end}


def test_frames_of_the_kernel(tmp_path: Path) -> None:
    """An address of which the kernel has told the function, one of which it has not, and a function without address."""
    named = Frame(FrameKind.KERNEL, "vfs_read", "[kernel]", 0, flags=FrameFlag.MACHINERY, module="[kernel]")
    of_module = Frame(FrameKind.KERNEL, "ext4_read", "[ext4]", 0, module="[ext4]")
    with CaptureWriter(tmp_path / "x.weft", META) as writer:
        writer.add_kernel_frame(1, 0xFFFFFFFF81000040)
        writer.add_functions(1, [named])
        writer.add_kernel_frame(2, 0xFFFFFFFF81000080)
        writer.add_kernel_frame(3, None)
        writer.add_functions(3, [of_module])
    with Capture(tmp_path / "x.weft") as capture:
        unnamed = Frame(FrameKind.KERNEL, "0xffffffff81000080", "[kernel]", 0, module="[kernel]")
        assert list(capture.frames()) == [(1, (named,)), (2, (unnamed,)), (3, (of_module,))]


def test_runs_come_back_in_order_and_add_up(tmp_path: Path) -> None:
    """Two threads whose batches alternate in the file."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1235, "other")
    for second in range(3):
        builder.run([A], 2_000_000, ticks=2)
        builder.run([A, B], 1_000_000 + second * 1000, thread=2, state=State.GIL)
        builder.commit()
    builder.close()
    with Capture(tmp_path / "x.weft") as capture:
        at = [at for runs in capture.runs(2) for at in runs.at_ns]
        assert at == [START_NS + 1_000_000, START_NS + 2_001_000, START_NS + 3_003_000]
        assert list(capture.runs(99)) == []
        a, ab = builder.stacks[0, 1], builder.stacks[builder.stacks[0, 1], 2]
        assert sorted(capture.totals()) == [(1, a, 0, 6_000_000, 6), (2, ab, 1, 3_003_000, 3)]


def test_one_file_remains(tmp_path: Path) -> None:
    path = record(tmp_path / "x.weft")
    assert list(tmp_path.iterdir()) == [path]
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_it_is_read_while_it_is_written(tmp_path: Path) -> None:
    """A reader sees one moment, though the writer commits in the middle of its reading, and ends meanwhile."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([A])
    builder.commit()
    with Capture(tmp_path / "x.weft") as early:
        builder.run([B])
        builder.commit()
        assert Profile.from_capture(early).ticks == 1
        with Capture(tmp_path / "x.weft") as late:
            assert Profile.from_capture(late).ticks == 2
        builder.close()
        assert Profile.from_capture(early).ticks == 1
    assert ticks(tmp_path / "x.weft") == 2


KILLED_WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from capture.builder import CaptureBuilder, frame
builder = CaptureBuilder(Path(sys.argv[1]))
for i in range(1, 1000000):
    builder.run([frame("f", i % 50)])
    builder.commit()
    print(i, flush=True)
"""


@pytest.mark.parametrize("commits", [1, 40, 700])
def test_a_killed_writer_leaves_every_batch(tmp_path: Path, commits: int) -> None:
    """kill -9 with the WAL hot, before and after SQLite's own checkpoints: what was said to be committed is there."""
    path = tmp_path / "x.weft"
    command = [sys.executable, "-c", KILLED_WRITER, str(path), str(Path(__file__).parents[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == commits:
                process.kill()
                break
        said = [commits, *map(int, process.stdout)]
    assert process.returncode == -signal.SIGKILL
    assert said[-1] <= ticks(path) <= said[-1] + 1


def unprivileged(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python without root's right to write anywhere, whatever the permissions are."""
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.getuid() == 0 else []
    return subprocess.run([*drop, sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


READ = """
import sys
from pathlib import Path
from weft.capture import Capture
from weft.profile.tables import Profile
print(Profile.from_capture(Capture(Path(sys.argv[1]))).ticks)
"""


def test_a_reader_needs_no_right_to_write(tmp_path: Path) -> None:
    """A finished capture in a folder that is read-only for the reader: SQLite can make no -shm file there."""
    path = record(tmp_path / "x.weft")
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    result = unprivileged(READ, str(path))
    assert (result.stdout, result.stderr) == ("10\n", "")


def test_a_capture_left_in_wal_mode_is_read_too(tmp_path: Path) -> None:
    """Someone read it when it ended, so that the writer could not leave WAL mode; the folder is read-only again."""
    path = record(tmp_path / "x.weft")
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
    tmp_path.chmod(0o555)
    result = unprivileged(READ, str(path))
    assert (result.stdout, result.stderr) == ("10\n", "")


def test_a_killed_writer_s_files_in_a_read_only_folder(tmp_path: Path) -> None:
    """All three files as a kill leaves them are read; a -wal without its -shm cannot be, and that is told."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([A])
    builder.commit()
    left = tmp_path / "left"
    left.mkdir()
    for name in ("x.weft", "x.weft-wal", "x.weft-shm"):
        (left / name).write_bytes((tmp_path / name).read_bytes())
    builder.close()
    left.chmod(0o555)
    result = unprivileged(READ, str(left / "x.weft"))
    assert (result.stdout, result.stderr) == ("1\n", "")
    left.chmod(0o755)
    (left / "x.weft-shm").unlink()
    left.chmod(0o555)
    assert (
        "copy it with its -wal file to a folder that you may write to"
        in unprivileged(READ, str(left / "x.weft")).stderr
    )


# --- what cannot be written


def test_only_captures_and_empty_files_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.weft"
    path.touch()
    record(path, 3)
    record(path, 5)
    assert ticks(path) == 5
    path.write_text("my thesis")
    with pytest.raises(OutputError, match=r"cannot write .*x.weft: it exists and is no weft capture"):
        CaptureWriter(path, META)
    assert path.read_text() == "my thesis"
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(OutputError, match="no weft capture"):
        CaptureWriter(tmp_path / "other.db", META)


def test_a_capture_that_is_being_written_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.weft"
    builder = CaptureBuilder(path)
    builder.run([A])
    builder.commit()
    with pytest.raises(OutputError, match="another program has it open"):
        CaptureWriter(path, META)
    builder.run([A])
    builder.close()
    assert ticks(path) == 2


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link.weft").symlink_to("real.weft")
    record(tmp_path / "link.weft")
    record(tmp_path / "link.weft")
    assert (tmp_path / "link.weft").is_symlink()
    assert ticks(tmp_path / "real.weft") == 10


def test_odd_paths_are_refused_in_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    for path, reason in (
        (tmp_path, "not a regular file"),
        (tmp_path / "fifo", "not a regular file"),
        (Path("/dev/null"), "not a regular file"),
        (tmp_path / "no" / "x.weft", "No such file or directory"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
        (tmp_path / ("x" * 300), "File name too long"),
        (Path("/proc/x.weft"), "No such file or directory"),
    ):
        with pytest.raises(OutputError, match=reason) as caught:
            CaptureWriter(path, META)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)


def test_no_permission_to_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    code = "import sys; from pathlib import Path; from weft.capture import CaptureWriter\n"
    code += "try: CaptureWriter(Path(sys.argv[1]), {})\nexcept Exception as error: print(type(error).__name__, error)"
    path = tmp_path / "x.weft"
    assert unprivileged(code, str(path)).stdout == f"OutputError cannot write {path}: Permission denied\n"


FULL_WRITER = """
import random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from capture.builder import CaptureBuilder, frame
from weft.errors import OutputError
if len(sys.argv) > 3:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
builder = CaptureBuilder(Path(sys.argv[1]))
rng = random.Random(1)
committed = 0
try:
    while True:
        for _ in range(2000):
            builder.run([frame("f", rng.randrange(1 << 30))], rng.randrange(1 << 30))
        builder.commit()
        committed += 2000
except OutputError as error:
    print(committed)
    print(error)
try:
    builder.writer.close("the disk is full")
except OutputError as error:
    print(error)
"""


@pytest.mark.parametrize("how", ["file size limit", "full disk"])
def test_a_full_disk_loses_nothing_that_was_committed(tmp_path: Path, how: str) -> None:
    """The write that fails is in the middle of a transaction; the recorder is told so in one line, and what it was
    told to be written can be read.
    """
    arguments = [str(tmp_path / "x.weft"), str(Path(__file__).parents[1])]
    mounted = how == "full disk"
    if mounted:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "x", tmp_path], check=False).returncode:
            pytest.skip("mounting a small disk needs root")
    else:
        arguments.append(str(2_000_000))
    try:
        result = subprocess.run(
            [sys.executable, "-c", FULL_WRITER, *arguments], capture_output=True, text=True, check=True
        )
        committed, message, *_ = result.stdout.splitlines()
        assert int(committed) > 0
        reason = "No space left on device" if mounted else "(No space left on device|Input/output error)"
        assert re.fullmatch(rf"cannot write .*x.weft: {reason}; what was recorded before is kept", message)
        assert ticks(tmp_path / "x.weft") >= int(committed)
    finally:
        if mounted:
            subprocess.run(["umount", tmp_path], check=True)


# --- what cannot be read


def test_what_is_no_capture(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("SQLite format 3, or so")
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (x)").connection.close()
    for name in ("empty", "text", "other"):
        with pytest.raises(NotACaptureError, match=f"{name} is no weft capture"):
            Capture(tmp_path / name)
    with pytest.raises(CaptureError, match=r"cannot read .*gone: No such file or directory"):
        Capture(tmp_path / "gone")
    with pytest.raises(CaptureError, match="Is a directory"):
        Capture(tmp_path)


def alter(path: Path, *statements: str) -> Path:
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()
    return path


def test_a_stack_that_is_told_anew(tmp_path: Path) -> None:
    """GIVEN a stack of which more is known later THEN the latest row holds, wherever its callers stand."""
    with CaptureWriter(tmp_path / "x.weft", META) as writer:
        writer.add_stacks([(1, 0, 1), (2, 1, 2), (3, 1, 3)])
        writer.commit(START_NS + 1)
        writer.add_stacks([(5, 0, 5), (4, 5, 4), (2, 4, 2), (6, 2, 6)])
        writer.commit(START_NS + 2)
    with Capture(tmp_path / "x.weft") as capture:
        told = list(capture.stacks())
    assert sorted(told) == [(1, 0, 1), (2, 4, 2), (3, 1, 3), (4, 5, 4), (5, 0, 5), (6, 2, 6)]
    places = {0: -1} | {stack: place for place, (stack, _, _) in enumerate(told)}
    assert all(places[parent] < places[stack] for stack, parent, _ in told)


def test_another_version_is_named(tmp_path: Path) -> None:
    path = alter(record(tmp_path / "x.weft"), "PRAGMA user_version = 8")
    with pytest.raises(CaptureVersionError, match="form 8, this weft reads form 7"):
        Capture(path)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("UPDATE stack SET parent = 2 WHERE id = 1", "stack . has no caller"),  # a cycle
        ("UPDATE stack SET parent = id", "stack . has no caller"),
        ("UPDATE stack SET parent = 99 WHERE id = 2", "stack . has no caller"),
        ("UPDATE stack SET frame = 99", "frame that is not there"),
        ("DELETE FROM frame", "frame that is not there"),
        ("DELETE FROM string", "has no name"),
        ("DELETE FROM stack", "stack .* is not there"),
        ("DELETE FROM thread", "thread 1 or its process is not there"),
        ("DELETE FROM process", "thread 1 or its process is not there"),
        ("UPDATE frame SET kind = 99", "99"),
        ("UPDATE frame SET kind = 4", "has no place"),
        ("UPDATE frame SET line = 'x'", "frame"),
        ("UPDATE stack SET parent = 1.5", "table stack has the wrong type"),
        ("UPDATE samples SET runs = 'text'", "table samples has the wrong type"),
        ("UPDATE samples SET runs = x''", "no proper end"),
        ("UPDATE samples SET runs = substr(runs, 1, length(runs) - 1)", "no proper end"),
        ("UPDATE samples SET runs = CAST(runs || x'00' AS BLOB)", "no proper end"),
        ("UPDATE samples SET runs = zeroblob(50)", "runs of thread 1"),
        ("UPDATE process SET command = '{'", "command"),
        ("UPDATE process SET command = '[1]'", "list of arguments"),
        ("INSERT INTO standing VALUES (1, 1, 7, 0)", "impossible state"),
        ("INSERT INTO standing VALUES (1, 1, 0, 9000000000000000000)", "impossible state or time"),
        ("INSERT INTO standing VALUES (1, 1, 0, -1)", "impossible state or time"),
        ("UPDATE meta SET value = 'x' WHERE key = 'written_ns'", "written_ns is not a time"),
        ("UPDATE meta SET value = -1 WHERE key = 'start_ns'", "start_ns is not a time"),
        ("UPDATE meta SET value = x'00' WHERE key = 'mode'", "table meta has the wrong type"),
        ("DROP TABLE loss", "table loss"),
        ("ALTER TABLE thread ADD COLUMN x", "table thread"),
        ("UPDATE string SET value = CAST(x'ff' AS TEXT)", "UTF-8"),
    ],
)
def test_damage_is_told_in_one_line(tmp_path: Path, damage: str, complaint: str) -> None:
    path = alter(record(tmp_path / "x.weft"), damage)
    with pytest.raises(NotACaptureError, match=complaint) as caught:
        ticks(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_that_is_a_view_is_refused(tmp_path: Path) -> None:
    """A view in the place of a table could run forever."""
    endless = "WITH RECURSIVE t(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM t) SELECT id, 0 parent, 1 frame FROM t"
    path = alter(record(tmp_path / "x.weft"), "DROP TABLE stack", f"CREATE VIEW stack AS {endless}")
    with pytest.raises(NotACaptureError, match="table stack"):
        Capture(path)


def test_runs_that_inflate_without_end_are_refused(tmp_path: Path) -> None:
    """64 MB of zeros in 64 kB: no batch is ever as large."""
    import zlib

    path = record(tmp_path / "x.weft")
    database = sqlite3.connect(path)
    database.execute("UPDATE samples SET runs = ?", (zlib.compress(bytes(64 << 20), 9),))
    database.commit()
    database.close()
    with pytest.raises(NotACaptureError, match="no proper end"):
        ticks(path)


def test_own_tables_and_indexes_of_a_user_do_no_harm(tmp_path: Path) -> None:
    path = alter(record(tmp_path / "x.weft"), "CREATE INDEX mine ON samples (thread)", "CREATE TABLE notes (x)")
    assert ticks(path) == 10


def test_a_damaged_file_never_shows_fewer_samples(tmp_path: Path) -> None:
    """Every byte of the file's structure and many of its content, one after the other: the reader tells the damage,
    or shows all samples. Names and times may change unseen, for nothing guards them; samples may not get lost.
    """
    whole = record(tmp_path / "x.weft", 400).read_bytes()
    path = tmp_path / "bad.weft"
    pages = range(0, len(whole), 4096)
    places = {page + offset for page in pages for offset in (*range(16), *range(4000, 4096, 3))}
    told = 0
    for place in sorted(places | set(range(110)) | set(range(0, len(whole), 211))):
        damaged = bytearray(whole)
        damaged[place] ^= 0x11
        path.write_bytes(damaged)
        try:
            assert ticks(path) == 400, f"byte {place}"
        except CaptureError as error:
            assert "\n" not in str(error)
            told += 1
    assert told > 100


def test_a_truncated_file_is_told(tmp_path: Path) -> None:
    whole = record(tmp_path / "x.weft", 400).read_bytes()
    path = tmp_path / "bad.weft"
    for size in (50, 100, 4096, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CaptureError):
            ticks(path)


# --- bounds


def test_strings_are_stored_once_as_long_as_they_are_remembered(tmp_path: Path) -> None:
    """More names than the cache holds: some are stored twice, and each frame still has its own."""
    from weft.capture import writer as module

    names = module.STRING_CACHE + 1_000
    with CaptureWriter(tmp_path / "x.weft", META) as writer:
        for i in range(names):
            writer.add_frame(i + 1, frame(f"f{i}", 1))
        for i in range(10):
            writer.add_frame(names + i + 1, frame(f"f{i}", 2))
        writer.commit(START_NS)
        assert len(writer._strings) <= module.STRING_CACHE
    with Capture(tmp_path / "x.weft") as capture:
        frames = dict(capture.frames())
    assert [frames[i + 1][0].function for i in range(names)] == [f"f{i}" for i in range(names)]
    assert [frames[names + i + 1][0].function for i in range(10)] == [f"f{i}" for i in range(10)]
    stored = sqlite3.connect(tmp_path / "x.weft").execute("SELECT count(*) FROM string").fetchone()[0]
    assert names < stored < names + 20


def test_an_hour_of_eight_busy_threads_stays_small(tmp_path: Path) -> None:
    """28.8 million runs may take 150 MB, 5.2 bytes a run. Here two minutes: another one of 5,000 stacks each time,
    and ticks each 0.5 to 1.5 ms that claim 1 ms, corrected by a sixteenth of what they are behind.
    """
    import random

    rng = random.Random(1)
    builder = CaptureBuilder(tmp_path / "x.weft", {"rate_hz": 1000})
    stacks = [[frame(f"f{i % 70}", i // 70)] for i in range(5_000)]
    unclaimed = 0.0
    for _ in range(8 * 15):
        for _ in range(1_000):
            passed = 1e6 * rng.uniform(0.5, 1.5) + rng.gauss(0, 3_000)
            unclaimed += passed
            weight = 1e6 + (unclaimed - 1e6) / 16
            unclaimed -= weight
            builder.run(rng.choice(stacks), int(weight), gap_ns=int(passed - weight))
        builder.commit()
    builder.close()
    size = (tmp_path / "x.weft").stat().st_size
    assert ticks(tmp_path / "x.weft") == 120_000
    assert size / 120_000 < 5.2 + 5_000 * 60 / 120_000  # the stacks and their frames are there once, however long


def test_a_batch_has_a_largest_size(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "x.weft", META) as writer, pytest.raises(ValueError, match="too large"):
        writer.add_runs(1, 0, SECOND, bytes(17 << 20))


def test_an_error_in_the_recorder_ends_the_capture_properly(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), CaptureWriter(tmp_path / "x.weft", META) as writer:
        writer.add_process(1, 1, None, [], None, START_NS)
        raise RuntimeError("the target is gone")
    with Capture(tmp_path / "x.weft") as capture:
        assert capture.meta["ended"] == "the target is gone"
        assert len(list(capture.processes())) == 1
    assert stat.S_ISREG((tmp_path / "x.weft").stat().st_mode)


def test_a_number_that_is_too_large(tmp_path: Path) -> None:
    """GIVEN a weight of more than 63 bits, a fault of weft's WHEN it is written THEN the error says which it is."""
    with (
        pytest.raises(OutputError, match=r"no 64 bits hold \(1, 'unseen', 1, 18446744073709551615\)"),
        CaptureWriter(tmp_path / "x.weft", {}) as writer,
    ):
        writer.set_losses(1, {"unseen": (1, 1)})
        writer.commit(5)
        writer.set_losses(1, {"unseen": (1, 2**64 - 1)})
        writer.commit(6)
    with Capture(tmp_path / "x.weft") as capture:
        assert capture.written_ns == 5
