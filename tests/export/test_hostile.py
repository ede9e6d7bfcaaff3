"""A capture that someone made up: every format shows it or tells what is wrong with it; none fails otherwise."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from capture.builder import SECOND, START_NS, CaptureBuilder, frame

from weft.capture import Capture
from weft.errors import CaptureError
from weft.export import FORMATS, write
from weft.profile.quality import KEYS
from weft.profile.tables import View
from weft.report.data import as_dict
from weft.sample import State

# Numbers that no reference or type guards, table by table.
NUMBERS = {
    "frame": "line first_line end_line column end_column flags",
    "thread": "tid start_ns end_ns",
    "process": "pid parent start_ns end_ns exit_status",
    "samples": "start_ns end_ns",
    "standing": "since_ns",
    "loss": "count weight_ns",
    "account": "value",
    "mapping": "start end offset seen_ns",
}
EXTREMES = [(1 << 63) - 1, -(1 << 63), 0, -1]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Something in every table."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_process(2, 1300, ["python3", "child.py"], 1)
    builder.add_thread(2, 2, 1300, "child")
    for i in range(20):
        builder.run([frame("main", i), frame("work", i % 3)], thread=1 + i % 2, state=State(i % 3))
    builder.run([])
    builder.writer.add_mapping(1, 1, 2, 3, "/lib/x.so", None, 5)
    builder.writer.set_standing(1, 1, State.BLOCKED, START_NS)
    builder.writer.set_losses(1, {"late": (1, 2), "cycle": (1, 0)})
    builder.writer.set_account(dict.fromkeys(KEYS, 7))
    builder.commit(START_NS + SECOND)
    builder.writer.close()
    return tmp_path / "x.weft"


def show_all(path: Path) -> None:
    """Every format, or the one line that says what is wrong."""
    try:
        for name in FORMATS:
            with Capture(path) as capture:
                write(capture, name, Path("/dev/null"), View(idle=True))
        with Capture(path) as capture:
            as_dict(capture, View())
    except CaptureError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("table", NUMBERS)
def test_numbers_out_of_any_range(whole: Path, table: str, extreme: int) -> None:
    database = sqlite3.connect(whole)
    changed = database.execute(
        f"UPDATE {table} SET " + ", ".join(f"{name} = {extreme}" for name in NUMBERS[table].split())
    )
    assert changed.rowcount > 0
    database.commit()
    database.close()
    show_all(whole)


@pytest.mark.parametrize("value", [*EXTREMES, "", "\x1b[31m\n</script>", "x" * 100_000])
def test_a_recording_that_tells_nonsense_of_itself(whole: Path, value: int | str) -> None:
    """One key of meta after the other, and then without it."""
    keys = [key for (key,) in sqlite3.connect(whole).execute("SELECT key FROM meta")]
    data = whole.read_bytes()
    for key in keys:
        for statement in (
            "UPDATE meta SET value = ? WHERE key = ?",
            "DELETE FROM meta WHERE ? IS NOT NULL AND key = ?",
        ):
            whole.write_bytes(data)
            database = sqlite3.connect(whole)
            database.execute(statement, (value, key))
            database.commit()
            database.close()
            show_all(whole)


def test_random_damage(whole: Path) -> None:
    """Bits flipped anywhere in the file, from one to five of them."""
    import random

    rng = random.Random(11)
    data = whole.read_bytes()
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        whole.write_bytes(damaged)
        show_all(whole)
