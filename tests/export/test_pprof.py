"""pprof: decoded here by hand, by the field numbers of the published profile.proto."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from capture.builder import CaptureBuilder, allocations, frame

from weft.capture import Capture
from weft.export import pprof
from weft.profile.tables import View
from weft.sample import State

Fields = dict[int, list["int | bytes"]]


def decode(data: bytes) -> Fields:
    """A protobuf message: field number -> values. https://protobuf.dev/programming-guides/encoding/"""
    fields: Fields = defaultdict(list)
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            fields[tag >> 3].append(varint())
        else:
            assert tag & 7 == 2
            size = varint()
            fields[tag >> 3].append(data[at : at + size])
            at += size
    return fields


def packed(values: list[int | bytes]) -> list[int]:
    """A repeated number, which proto3 packs into one string of varints."""
    numbers: list[int] = []
    for value in values:
        assert isinstance(value, bytes)
        number = shift = 0
        for byte in value:
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                numbers.append(number)
                number = shift = 0
    return numbers


def messages(fields: Fields, number: int) -> list[Fields]:
    return [decode(value) for value in fields[number] if isinstance(value, bytes)]


class Decoded:
    """What a reader of pprof sees."""

    def __init__(self, path: Path, *, idle: bool = False) -> None:
        with Capture(path) as capture:
            (data,) = pprof.render(capture, View(idle=idle))
        self.top = decode(gzip.decompress(data))
        self.strings = [value.decode() for value in self.top[6] if isinstance(value, bytes)]
        self.functions = {one[1][0]: one for one in messages(self.top, 5)}
        self.locations = {one[1][0]: one for one in messages(self.top, 4)}

    def text(self, fields: Fields, number: int) -> str:
        index = fields[number][0] if fields[number] else 0
        assert isinstance(index, int)
        return self.strings[index]

    def stacks(self) -> Counter[tuple[str, ...]]:
        """Stack, root first, and state -> count and time."""
        result: Counter[tuple[str, ...]] = Counter()
        for sample in messages(self.top, 2):
            stack = []
            for location in packed(sample[1]):
                (line,) = messages(self.locations[location], 4)
                function = self.functions[line[1][0]]
                number = line[2][0] if line[2] else 0
                stack.append(f"{self.text(function, 2)} {self.text(function, 4)}:{number}")
            labels = {self.text(label, 1): label for label in messages(sample, 3)}
            state, thread = self.text(labels["state"], 2), self.text(labels["thread"], 2)
            ticks, weight_ns = packed(sample[2])
            result[*reversed(stack), state, thread, str(labels["tid"][3][0]), "ticks"] += ticks
            result[*reversed(stack), state, thread, str(labels["tid"][3][0]), "ns"] += weight_ns
        return result


def test_samples(tmp_path: Path) -> None:
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.add_thread(2, 1, 1240, "wörker")
    builder.run([frame("main", 3), frame("<lambda>", 9)], 2_000_000, ticks=2)
    builder.run([frame("main", 3), frame("<lambda>", 9)], 1_000_000, thread=2, state=State.GIL)
    builder.run([frame("sleep", 3)], state=State.BLOCKED)
    builder.run([], 5_000)
    path = builder.close()
    stack = ("main /srv/app.py:3", "<lambda> /srv/app.py:9")
    active = {
        (*stack, "running", "MainThread", "1234", "ticks"): 2,
        (*stack, "running", "MainThread", "1234", "ns"): 2_000_000,
        (*stack, "gil", "wörker", "1240", "ticks"): 1,
        (*stack, "gil", "wörker", "1240", "ns"): 1_000_000,
        ("[no Python frame] :0", "running", "MainThread", "1234", "ticks"): 1,
        ("[no Python frame] :0", "running", "MainThread", "1234", "ns"): 5_000,
    }
    assert Decoded(path).stacks() == active
    assert Decoded(path, idle=True).stacks()["sleep /srv/app.py:3", "blocked", "MainThread", "1234", "ns"] == 1_000_000


def test_head(tmp_path: Path) -> None:
    """Types and units, the period, the times, and the account as comments; string 0 is empty, as the format asks."""
    builder = CaptureBuilder(tmp_path / "x.weft", {"mode": "cpu", "rate_hz": 100})
    builder.run([frame("f")])
    decoded = Decoded(builder.close())
    assert decoded.strings[0] == ""
    assert len(set(decoded.strings)) == len(decoded.strings)
    types = [(decoded.text(one, 1), decoded.text(one, 2)) for one in messages(decoded.top, 1)]
    assert types == [("samples", "count"), ("cpu", "nanoseconds")]
    (period,) = messages(decoded.top, 11)
    assert (decoded.text(period, 1), decoded.text(period, 2), decoded.top[12]) == ("cpu", "nanoseconds", [10_000_000])
    assert decoded.top[9] == [1_750_000_000_000_000_000]
    assert decoded.top[10] == [1_000_000]
    assert decoded.text(decoded.top, 14) == "cpu"
    comments = [decoded.strings[index] for index in packed(decoded.top[13])]
    assert any(comment.startswith("samples ") for comment in comments)


def test_allocations(tmp_path: Path) -> None:
    """Of mode alloc types and period are those of Go's profiles of the heap; libc's own functions are left out."""
    decoded = Decoded(allocations(tmp_path / "x.weft"))
    types = [(decoded.text(one, 1), decoded.text(one, 2)) for one in messages(decoded.top, 1)]
    assert types == [("alloc_objects", "count"), ("alloc_space", "bytes")]
    (period,) = messages(decoded.top, 11)
    assert (decoded.text(period, 1), decoded.text(period, 2), decoded.top[12]) == ("space", "bytes", [512 << 10])
    assert decoded.text(decoded.top, 14) == "alloc_space"
    seen = {(*(part.split()[0] for part in names[:-4]), names[-1]): count for names, count in decoded.stacks().items()}
    bytes_ = {names[:-1]: seen.pop(names) for names in list(seen) if names[-1] == "ns"}
    assert seen == {("main", "parse", "make_array", "ticks"): 3000, ("main", "make_array", "ticks"): 4}
    # A weight is kept in thousands of bytes, and the rest goes to the next one.
    assert bytes_ == {("main", "parse", "make_array"): 3_221_225_000, ("main", "make_array"): 1_073_742_000}


def test_ids_count_from_one_and_are_unique(tmp_path: Path) -> None:
    """0 would mean none. Two functions of one name in one file are two; two lines of a function share it."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    builder.run([frame("f", 3, first_line=1), frame("f", 4, first_line=1), frame("f", 9, first_line=8)])
    decoded = Decoded(builder.close())
    assert sorted(decoded.functions) == [1, 2]
    assert sorted(decoded.locations) == [1, 2, 3]
    assert [one[5] for one in decoded.functions.values()] == [[1], [8]]


def test_the_shipped_classes_are_those_of_the_shipped_proto() -> None:
    """profile_pb2.py is generated: every field of profile.proto is in it with its number, and no other."""
    import re

    from weft.export import profile_pb2

    source = Path(profile_pb2.__file__).with_name("profile.proto").read_text("utf-8")
    source = re.sub(r"//[^\n]*", "", source)
    declared = {
        (message, name, int(number))
        for message, body in re.findall(r"message (\w+) \{(.*?)\n\}", source, re.DOTALL)
        for name, number in re.findall(r"(\w+) = (\d+);", body)
    }
    generated = {
        (message.name, field.name, field.number)
        for message in profile_pb2.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
    }
    assert generated == declared


def test_deep_stacks_are_elided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pprof, "MOST_FRAMES", 5_000)
    builder = CaptureBuilder(tmp_path / "x.weft")
    for depth in range(1_100, 1_110):
        builder.run([frame("main"), *[frame("recurse", 2)] * depth])
    stacks = Decoded(builder.close()).stacks()
    assert {stack.index("[frames left out] :0") for stack in stacks} == {pprof.LONGEST // 2}
    assert sum(count for stack, count in stacks.items() if stack[-1] == "ticks") == 10
