"""Walks over snapshots of real interpreters: as they were, and damaged."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snapshots import Snapshot, all_snapshots, walk

from weft import _native
from weft.cpython.codes import Code
from weft.cpython.layout import ABSENT, Version

SNAPSHOTS = {path.name.removesuffix(".json.gz"): Snapshot.load(path) for path in all_snapshots()}
WORD = (1 << 64) - 1

snapshots = pytest.mark.parametrize("snapshot", SNAPSHOTS.values(), ids=SNAPSHOTS.keys())


def functions(snapshot: Snapshot) -> list[list[str]]:
    """The names in each stack, root first."""
    version = Version.from_hex(snapshot.layout["version"])
    codes = {}
    for number, line, *texts, table in snapshot.walk["codes"]:
        filename, name, qualname = ((kind, bytes.fromhex(data), cut) for kind, data, cut in texts)
        codes[number] = Code(version, line, filename, name, qualname, bytes.fromhex(table))
    return [[codes[code].function for code, *_ in reversed(frames)] for frames, _, _ in snapshot.walk["stacks"]]


def test_there_is_one_of_every_version() -> None:
    """All of 2.7 and 3.6 to 3.15."""
    assert {name.split("-")[1].rpartition(".")[0] for name in SNAPSHOTS} == {
        "2.7", *(f"3.{minor}" for minor in range(6, 16))
    }  # fmt: skip


@snapshots
def test_a_snapshot_says_what_the_process_did(snapshot: Snapshot) -> None:
    """GIVEN the bytes that the walk of a live process has read: their walk has the same threads, stacks and code."""
    assert walk(snapshot.memory(), snapshot.layout, snapshot.addresses) == snapshot.walk


@snapshots
def test_a_snapshot_holds_what_the_program_did(snapshot: Snapshot) -> None:
    """GIVEN the program still.py: its recursion, generators, and names of every width are in the snapshot, whole."""
    version = Version.from_hex(snapshot.layout["version"])
    assert {loss for _, loss, _ in snapshot.walk["stacks"]} == {"none"}
    stacks = functions(snapshot)
    assert sum(stack.count("recursion") == 13 for stack in stacks) == 1
    # Comprehensions have frames of their own up to 3.11, in 3.x.
    last = [[name.rpartition(".")[2] for name in stack if not name.endswith("<listcomp>")] for stack in stacks]
    assert sum(stack[-3:] == ["outer", "inner", "stop"] for stack in last) == 1
    wide = {name for stack in last for name in stack if not name.isascii()}
    assert wide == (set() if version < (3, 0) else {"été", "文", "\U00020000"})
    inside = [stack for stack in last if stack[-1] == "inside"]
    assert len(inside) == (version >= (3, 8))


@st.composite
def damage(draw: st.DrawFn, snapshot: Snapshot) -> tuple[list[tuple[int, bytes]], dict[str, int], dict[str, int]]:
    """Bytes to write over the snapshot, fields of the layout, roots."""
    segment = st.sampled_from(snapshot.segments)
    place = segment.flatmap(lambda s: st.integers(0, len(s[1]) - 1).map(lambda offset: s[0] + offset))
    aligned = place.map(lambda address: address & ~7)
    held = segment.flatmap(
        lambda s: st.integers(0, max(0, len(s[1]) // 8 - 1)).map(
            lambda word: int.from_bytes(s[1][8 * word : 8 * word + 8], "little")
        )
    )
    numbers = st.one_of(
        held,
        place,
        st.sampled_from([0, 1, 0xFFFF, 0xFFFFFFFF, 1 << 63, WORD]),
        st.integers(0, WORD),
        st.integers(0, 512),
    )
    words = st.tuples(aligned, numbers.map(lambda number: number.to_bytes(8, "little")))
    few = st.tuples(place, st.binary(min_size=1, max_size=4))
    writes = draw(st.lists(st.one_of(words, words, few), max_size=12))
    offsets = st.one_of(st.integers(0, 600), st.sampled_from([ABSENT, ABSENT - 7, 1 << 31]))
    names = st.sampled_from([name for name in _native.LAYOUT_FIELDS if name != "pointer_size"])
    layout = draw(st.one_of(st.just({}), st.dictionaries(names, offsets, max_size=3)))
    roots = draw(st.one_of(st.just({}), st.dictionaries(st.sampled_from([*snapshot.addresses]), numbers, max_size=2)))
    return writes, layout, roots


@snapshots
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_damage(snapshot: Snapshot, data: st.DataObject) -> None:
    """GIVEN a snapshot in which pointers, lengths, offsets and roots are something else: the walk ends, each loss has a
    name, and every frame has a code object that was told."""
    writes, layout, roots = data.draw(damage(snapshot))
    image = _native.ImageMemory()
    for address, change in writes:
        image.add_bytes(address, change)
    for address, segment in snapshot.segments:
        image.add_bytes(address, segment)
    told = walk(image, snapshot.layout | layout, snapshot.addresses | roots)
    codes = {code for code, *_ in told["codes"]}
    assert told["loss"] in _native.LOSSES
    for frames, loss, _ in told["stacks"]:
        assert loss in _native.LOSSES
        for code, instruction, _ in frames:
            assert code in codes
            assert -2 <= instruction <= 1 << 28
    for _, _, *texts, table in told["codes"]:
        assert len(table) <= 2 * (4 << 20)
        assert all(kind in (0, 1, 2, 4) and len(text) <= 2 * 4 * 4096 for kind, text, _ in texts)


@pytest.mark.parametrize("pointer_size", [0, 3, 16, ABSENT])
def test_pointers_of_no_size(pointer_size: int) -> None:
    """GIVEN a layout whose pointers would not fit into a number."""
    snapshot = next(iter(SNAPSHOTS.values()))
    with pytest.raises(ValueError, match="pointer_size"):
        walk(snapshot.memory(), snapshot.layout | {"pointer_size": pointer_size}, snapshot.addresses)
