"""The honest account: nothing that the recorder counted is left out of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from capture.builder import CaptureBuilder, frame

from weft.capture import Capture
from weft.profile.quality import KEYS, Account
from weft.profile.units import duration, size

VALUES = {key: 1_110_000 * (i + 1) for i, key in enumerate(KEYS)}  # each differs, also when it is shown as a time


def account(path: Path, meta: Mapping[str, str | int] | None = None, *, close: bool = True, ended: str = "") -> Account:
    builder = CaptureBuilder(path, meta)
    builder.add_process(2, 1300, ["python3", "child.py"], 1)
    builder.run([frame("f")])
    builder.writer.set_losses(1, {"unreadable": (4, 4_000_000), "cycle": (1, 0)})
    builder.writer.set_losses(2, {"unreadable": (2, 2_000_000), "bad\x1bname": (3, 0)})
    builder.writer.set_account(VALUES | {"new_key": 5})
    builder.commit()
    if close:
        builder.writer.close(ended)
    with Capture(path) as capture:
        result = Account.from_capture(capture)
    if not close:
        builder.close()
    return result


def test_every_count_is_in_the_data_and_in_the_text(tmp_path: Path) -> None:
    """Each key has its own value, so that one shown in the place of another is noticed."""
    result = account(tmp_path / "x.weft")
    data = json.loads(json.dumps(result.as_dict()))
    assert {key: data[key] for key in KEYS} == VALUES
    assert data["new_key"] == 5  # a recorder that counts more than this report tells
    text = "\n".join(result.lines())
    for key in KEYS:
        shown = size(VALUES[key]) if key.endswith("_bytes") else duration(VALUES[key])
        assert f"{VALUES[key]:,}" in text or shown in text, key


def test_losses_of_all_processes_are_added_up_and_told_apart(tmp_path: Path) -> None:
    """Lost is what has a weight; the rest is degraded."""
    result = account(tmp_path / "x.weft")
    assert [(item.reason, item.count, item.weight_ns) for item in result.lost] == [("unreadable", 6, 6_000_000)]
    assert [(item.reason, item.count) for item in result.degraded] == [("bad\x1bname", 3), ("cycle", 1)]
    assert result.lost_count == 6
    assert "6 lost" in result.summary
    assert "4 degraded" in result.summary
    assert "6 (unreadable 6), 6.00 ms" in "\n".join(result.lines())
    assert all(line.isprintable() for line in result.lines())


def test_warnings(tmp_path: Path) -> None:
    assert account(tmp_path / "a.weft").warnings == ()
    (peek,) = account(tmp_path / "b.weft", {"collector": "peek"}).warnings
    assert "leans towards code that rarely calls" in peek
    assert f"{VALUES['stacks_moving'] / VALUES['samples_taken']:.0%}".rstrip("%") in peek
    (running,) = account(tmp_path / "c.weft", close=False).warnings
    assert "has not ended" in running
    (early,) = account(tmp_path / "d.weft", ended="the disk is full").warnings
    assert early.endswith("the disk is full")


def test_a_recorder_that_never_stops_its_target_says_so(tmp_path: Path) -> None:
    CaptureBuilder(tmp_path / "x.weft").close()
    with Capture(tmp_path / "x.weft") as capture:
        assert "held      the target never waited" in Account.from_capture(capture).lines()
