"""Files that someone made up: each is read, or refused in one line; none takes long or fails otherwise."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capture.builder import CaptureBuilder, frame
from weft_command import assert_one_line, run_weft

from weft.capture import Capture
from weft.errors import CaptureError
from weft.export import FORMATS, pprof, speedscope, write
from weft.export.profile_pb2 import Profile as Message
from weft.imports import MOST_BYTES, open_recording
from weft.profile.tables import View

SAMPLED = {
    "shared": {"frames": [{"name": "f", "file": "a.py", "line": 1}]},
    "profiles": [
        {
            "type": "sampled",
            "name": "t",
            "unit": "seconds",
            "startValue": 0,
            "endValue": 1,
            "samples": [[0]],
            "weights": [1],
        }
    ],
}
EVENTED: dict[str, Any] = {
    "shared": {"frames": [{"name": "f"}, {"name": "g"}]},
    "profiles": [
        {
            "type": "evented",
            "name": "t",
            "unit": "seconds",
            "startValue": 0,
            "endValue": 2,
            "events": [{"type": "O", "frame": 0, "at": 0}, {"type": "C", "frame": 0, "at": 2}],
        }
    ],
}


def show_all(path: Path) -> None:
    """Every format, or the one line that says what is wrong."""
    try:
        for name in FORMATS:
            with open_recording(path) as capture:
                write(capture, name, Path("/dev/null"), View(idle=True))
    except CaptureError as error:
        assert "\n" not in str(error)
        assert str(error).isprintable()


def changed(document: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> bytes:
    copy = json.loads(json.dumps(document))
    change(copy)
    return json.dumps(copy).encode()


def profile_of(document: dict[str, Any]) -> dict[str, Any]:
    return document["profiles"][0]  # type: ignore[no-any-return]


REFUSED = {
    "no count": b"main;work\n",
    "nothing but a count of no kind": b" x\n",
    "no stack": b"\n\n# only words\n",
    "a negative count": b"main;work -5\n",
    "centuries": b"main;work 99999999999999999\n" * 60,
    "an escape": b"main\xc2\x9b31m;work x\n",
    "not utf-8": b"\xff\xfe\xfa\n",
    "JSON cut short": json.dumps(SAMPLED).encode()[:-9],
    "other JSON": b'{"traceEvents": []}',
    "deep JSON": b'{"profiles":' + b"[" * 200_000,
    "no profiles": changed(SAMPLED, lambda d: d["profiles"].clear()),
    "bytes": changed(SAMPLED, lambda d: profile_of(d).update(unit="bytes")),
    "frames elsewhere": changed(SAMPLED, lambda d: profile_of(d).update(samples=[[7]])),
    "a negative frame": changed(SAMPLED, lambda d: profile_of(d).update(samples=[[-1]])),
    "a frame by name": changed(SAMPLED, lambda d: profile_of(d).update(samples=[["f"]])),
    "weights lacking": changed(SAMPLED, lambda d: profile_of(d).update(weights=[])),
    "not a number": changed(SAMPLED, lambda d: profile_of(d).update(weights=[float("nan")])),
    "for ever": changed(SAMPLED, lambda d: profile_of(d).update(weights=[1e300])),
    "a line of 10^30": changed(SAMPLED, lambda d: d["shared"]["frames"][0].update(line=10**30)),
    "a name that is none": changed(SAMPLED, lambda d: d["shared"]["frames"][0].update(name=None)),
    "another type": changed(SAMPLED, lambda d: profile_of(d).update(type="\x1b[31m")),
    "time runs back": changed(EVENTED, lambda d: profile_of(d)["events"][1].update(at=-1)),
    "another frame closed": changed(EVENTED, lambda d: profile_of(d)["events"][1].update(frame=1)),
    "never closed": changed(EVENTED, lambda d: profile_of(d)["events"].pop()),
    "nothing open": changed(EVENTED, lambda d: profile_of(d)["events"].reverse()),
    "an event that is none": changed(EVENTED, lambda d: profile_of(d).update(events=[3])),
    "an ELF file": b"\x7fELF" + bytes(5000),
    "gzip cut short": gzip.compress(b"main 1\n" * 1000)[:-20],
    "a bomb": gzip.compress(bytes(MOST_BYTES + 1), 1),
    "nothing": b"",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.profile"
    path.write_bytes(REFUSED[name])
    with pytest.raises(CaptureError) as told, open_recording(path):
        pass
    assert str(told.value).isprintable()
    assert "x.profile" in str(told.value)


def test_refused_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "x.folded"
    path.write_bytes(b"main;work\n")
    assert "does not end with a count" in assert_one_line(run_weft("report", path))
    assert_one_line(run_weft("diff", path, path))


def test_the_good_ones_are_read(tmp_path: Path) -> None:
    """Else nothing above could be read wrongly."""
    for document in (SAMPLED, EVENTED):
        (tmp_path / "x.json").write_text(json.dumps(document))
        with open_recording(tmp_path / "x.json") as capture:
            assert sum(weight for *_, weight, _ in capture.totals()) in (10**9, 2 * 10**9)


def message() -> Message:
    """One sample of one location with one function, and what is told of it."""
    made = Message(string_table=["", "samples", "count", "cpu", "nanoseconds", "f", "a.py"])
    made.sample_type.add(type=1, unit=2)
    made.sample_type.add(type=3, unit=4)
    made.function.add(id=1, name=5, filename=6)
    made.location.add(id=1).line.add(function_id=1, line=3)
    made.sample.add(location_id=[1], value=[1, 10**7])
    return made


def no_functions(made: Message) -> None:
    del made.function[:]


def many_inlined(made: Message) -> None:
    for _ in range(2000):
        made.location[0].line.add(function_id=1)


PPROFS: dict[str, Callable[[Message], object]] = {
    "a string that is not there": lambda made: setattr(made.function[0], "name", 99),
    "a negative string": lambda made: setattr(made.sample_type[0], "type", -1),
    "a location that is not there": lambda made: made.sample[0].location_id.append(7),
    "a function that is not there": no_functions,
    "values lacking": lambda made: made.sample[0].value.pop(),
    "a negative time": lambda made: made.sample.add(location_id=[1], value=[1, -5]),
    "centuries": lambda made: made.sample.add(location_id=[1], value=[1, (1 << 63) - 1]),
    "a bomb of inlined functions": many_inlined,
    "a line of 2^40": lambda made: setattr(made.location[0].line[0], "line", 1 << 40),
    "bytes": lambda made: [setattr(kind, "unit", 6) for kind in made.sample_type],
    "no sample": lambda made: made.ClearField("sample"),
}


@pytest.mark.parametrize("name", PPROFS)
def test_pprof_refused(name: str, tmp_path: Path) -> None:
    made = message()
    path = tmp_path / "x.pb.gz"
    path.write_bytes(gzip.compress(made.SerializeToString()))
    with open_recording(path) as capture:  # it is good so far
        assert [*capture.totals()] == [(1, 1, 0, 10**7, 1)]
    PPROFS[name](made)
    path.write_bytes(made.SerializeToString())  # not compressed, which pprof's own tools read, too
    with pytest.raises(CaptureError) as told, open_recording(path):
        pass
    assert str(told.value).isprintable()


@pytest.mark.parametrize("module", [speedscope, pprof])
def test_random_damage(module: Any, tmp_path: Path) -> None:
    """Bytes changed anywhere in files that weft has written, which are shown or refused."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    for number in range(30):
        builder.run([frame("main", number), frame("work", number % 3)])
    with Capture(builder.close()) as capture:
        data = b"".join(module.render(capture, View()))
    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    rng = random.Random(13)
    path = tmp_path / "x.damaged"
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        show_all(path)


def test_deep_and_long(tmp_path: Path) -> None:
    """A stack of 100,000 frames, and a name of a million characters, escapes among them."""
    path = tmp_path / "x.folded"
    path.write_text(";".join(["f (a.py:1)"] * 100_000) + " 1\n" + "\u202e" + "x" * 1_000_000 + " 2\n")
    show_all(path)
    with open_recording(path) as capture:
        assert sum(ticks for *_, ticks in capture.totals()) == 3
