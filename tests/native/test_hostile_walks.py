"""Walks over programs made up to be deep, torn, or to keep the walker busy for as long as they can."""

from __future__ import annotations

import struct

import pytest
from made_up import (
    CFRAMED,
    CHUNKED,
    CODE,
    ENTERED,
    FRAME_SIZE,
    FRAMES,
    HEAD,
    INTERPRETER,
    LINKED,
    NAME,
    THREAD,
    Walk,
    chunk,
    chunked,
    code,
    linked,
    program,
    text,
    thread,
)

from weft import _native

DEEPEST = 1 << 20  # FrameWalker::kMaxFrames
SHIM = FRAMES - 0x1000
MB = 1 << 20
WILD = 0xDEAD_BEEF_0000


def with_chunks(sizes: list[int]) -> _native.ImageMemory:
    """A data stack of chunks with so many frames each, outermost first, each at its own address, below them a shim."""
    starts = [FRAMES + number * 0x1_0000_0000 for number in range(len(sizes))]
    innermost, newest, top = SHIM, 0, 0
    parts = [(SHIM, struct.pack("<QQQQ", 0, 0, 0, 3))]
    for start, count in zip(starts, sizes, strict=True):
        frames = start + 24
        parts.append((start, chunk(newest, count * FRAME_SIZE) + chunked(count, innermost, frames)))
        parts.append((frames + count * FRAME_SIZE, bytes(4096)))  # the rest of the last page
        newest, innermost = start, frames + (count - 1) * FRAME_SIZE
        top = frames + count * FRAME_SIZE
    image = program(innermost, newest, top)
    for address, data in parts:
        image.add_bytes(address, data)
    return image


@pytest.mark.parametrize("depth", [1, 2, 1000, 100_000, 1_000_000, DEEPEST])
def test_deep_linked(depth: int) -> None:
    """GIVEN frames anywhere, linked."""
    image = program(FRAMES)
    image.add_bytes(FRAMES, linked(depth))
    walk = Walk(image, LINKED)
    assert (len(walk.frames), walk.loss) == (depth, "none")
    assert set(walk.frames) == {(1, 4, False)}


@pytest.mark.parametrize("sizes", [[1], [2, 3], [400, 1, 400], [100_000], [1000] * 100, [1_000_000], [500_000] * 2])
def test_deep_chunked(sizes: list[int]) -> None:
    """GIVEN frames on one chunk, on many, and on chunks larger than any that CPython makes."""
    walk = Walk(with_chunks(sizes), CHUNKED)
    assert (len(walk.frames), walk.loss) == (sum(sizes), "none")
    assert set(walk.frames) == {(1, 4, False)}
    assert walk.anchor == SHIM


def test_deeper_than_weft_walks() -> None:
    """GIVEN ten frames too many: the innermost ones are kept."""
    image = program(FRAMES)
    image.add_bytes(FRAMES, linked(DEEPEST + 10))
    walk = Walk(image, LINKED)
    assert (len(walk.frames), walk.loss) == (DEEPEST, "depth")


@pytest.mark.parametrize("before", [0, 1, 1000])
@pytest.mark.parametrize("length", [1, 2, 1000])
def test_cycles(before: int, length: int) -> None:
    """GIVEN a chain that runs, after some frames, into a circle. Every frame is there; none more often than thrice."""
    image = program(FRAMES)
    image.add_bytes(FRAMES, linked(before + length, FRAMES + 24 * before))
    walk = Walk(image, LINKED)
    assert walk.loss == "cycle"
    assert before + length <= len(walk.frames) <= 3 * (before + length) + 2


@pytest.mark.parametrize("last", [WILD, 8, (1 << 64) - 8, 1 << 63, FRAMES + 24 * 50 - 8])
def test_wild_pointers(last: int) -> None:
    """GIVEN a chain that leads to where nothing is, or over the end of what is there: what was reached is kept."""
    image = program(FRAMES)
    image.add_bytes(FRAMES, linked(50, last))
    walk = Walk(image, LINKED)
    assert (len(walk.frames), walk.loss) == (50, "unreadable")


def test_a_chain_that_ends_without_a_shim() -> None:
    """GIVEN a generator that was just unlinked: its chain ends before the frame that calls it."""
    image = program(FRAMES + 9 * FRAME_SIZE)
    frames = bytearray(chunked(10))
    frames[CHUNKED["frame_owner"]] = 1
    image.add_bytes(FRAMES, bytes(frames))
    walk = Walk(image, CHUNKED)
    assert (len(walk.frames), walk.loss) == (10, "between-frames")


CSTACK = 0x7FFF_0000_0000
ROOT = THREAD + 0x100  # the thread state's own cframe
OUTER, NEWEST = CSTACK + 0x800, CSTACK + 0x400  # cframes of two activations
OUTER_ENTRY, NEWEST_ENTRY = CSTACK + 0x880, CSTACK + 0x480
FIRST, CALLER, NEW = FRAMES, FRAMES + FRAME_SIZE, FRAMES + 2 * FRAME_SIZE


def activations(layout: dict[str, int], newest: int, entry_caller: int, new_caller: int, *, begun: bool = True) -> Walk:
    """FIRST has called CALLER, and that C, which calls NEW.

    Given: what the newest cframe names, and whom the new frame and its entry frame are linked to.
    """
    shims = layout is CFRAMED
    image = program(NEWEST)

    def frame(previous: int, *, owner: int = 0, is_entry: bool = False, started: bool = True) -> bytes:
        return struct.pack("<QQQBB6x", previous, CODE, CODE + (44 if started else 38), owner, is_entry and not shims)

    for at, data in {
        ROOT: struct.pack("<QQ", 0, 0),
        OUTER: struct.pack("<QQ", CALLER, ROOT),
        NEWEST: struct.pack("<QQ", newest, OUTER),
        OUTER_ENTRY: frame(0, owner=3),
        NEWEST_ENTRY: frame(entry_caller, owner=3),
        FIRST: frame(OUTER_ENTRY if shims else 0, is_entry=True),
        CALLER: frame(FIRST),
        NEW: frame(new_caller, is_entry=begun, started=begun),
    }.items():
        image.add_bytes(at, data)
    return Walk(image, layout)


def test_an_activation_that_is_linked() -> None:
    """GIVEN an activation that runs a frame, that has none any more, or whose cframe names its caller still."""
    assert len(activations(CFRAMED, NEW, CALLER, NEWEST_ENTRY).frames) == 3
    assert len(activations(CFRAMED, NEWEST_ENTRY, CALLER, NEWEST_ENTRY).frames) == 2
    assert len(activations(CFRAMED, CALLER, FIRST, FIRST).frames) == 2
    assert len(activations(ENTERED, NEW, CALLER, CALLER).frames) == 3
    assert len(activations(ENTERED, CALLER, FIRST, FIRST).frames) == 2
    # What greenlet does before it switches: the entry frames are left out.
    assert len(activations(CFRAMED, NEW, CALLER, CALLER).frames) == 3


@pytest.mark.parametrize(
    ("layout", "newest", "entry_caller", "new_caller"),
    [
        (CFRAMED, NEWEST_ENTRY, FIRST, NEWEST_ENTRY),
        (CFRAMED, NEWEST_ENTRY, NEW, CALLER),
        (CFRAMED, NEWEST_ENTRY, NEW, FIRST),
        (CFRAMED, NEW, CALLER, CALLER),
        (CFRAMED, NEW, FIRST, FIRST),
        (CFRAMED, NEW, FIRST, NEWEST_ENTRY),
        (ENTERED, NEW, CALLER, CALLER),
        (ENTERED, NEW, FIRST, FIRST),
        (ENTERED, FIRST, FIRST, FIRST),
    ],
)
def test_an_activation_that_has_half_begun(
    layout: dict[str, int], newest: int, entry_caller: int, new_caller: int
) -> None:
    """GIVEN a cframe that is linked but not filled, and what it and the frames have from activations before it."""
    walk = activations(layout, newest, entry_caller, new_caller, begun=False)
    assert walk.loss == "between-frames"


def test_a_greenlet_that_is_about_to_be_switched_out() -> None:
    """GIVEN frames on the data stack that are linked past their entry frames, up to the outermost: they are whole."""
    image = program(FRAMES + 9 * FRAME_SIZE)
    image.add_bytes(FRAMES, chunked(10))
    walk = Walk(image, CHUNKED)
    assert (len(walk.frames), walk.loss) == (10, "none")


@pytest.mark.parametrize(
    ("start", "top"),
    [
        (FRAMES, FRAMES - 8),  # it ends before it begins
        (FRAMES, FRAMES + (1 << 40)),
        (FRAMES, (1 << 64) - 1),
        (WILD, WILD + 64 * MB),  # large, and not there
        (WILD, FRAMES),
        ((1 << 64) - 64, FRAMES),
        (FRAMES, FRAMES + 24 + 9 * FRAME_SIZE + 8),  # its end cuts the innermost frame in two
    ],
)
def test_torn_chunks(start: int, top: int) -> None:
    """GIVEN a data stack that is just being changed: frames are then read one by one, and none is lost."""
    image = program(FRAMES + 24 + 9 * FRAME_SIZE, start, top)
    image.add_bytes(FRAMES, chunk(start, 10 * FRAME_SIZE) + chunked(10, SHIM, FRAMES + 24))
    image.add_bytes(SHIM, struct.pack("<QQQQ", 0, 0, 0, 3))
    walk = Walk(image, CHUNKED)
    assert (len(walk.frames), walk.loss) == (10, "none")


@pytest.mark.parametrize("behind", [0, 4096])
def test_frames_that_have_been_popped(behind: int) -> None:
    """GIVEN frames above the top of their chunk, which can be read as a whole, or (as of the past) frame by frame."""
    image = program(FRAMES + 24 + 9 * FRAME_SIZE, FRAMES, FRAMES + 24 + 8)
    image.add_bytes(FRAMES, struct.pack("<QQQ", 0, 16 << 10, 1) + chunked(10, SHIM, FRAMES + 24) + bytes(behind))
    image.add_bytes(SHIM, struct.pack("<QQQQ", 0, 0, 0, 3))
    walk = Walk(image, CHUNKED)
    assert (len(walk.frames), walk.loss) == (0, "between-frames")


def test_chunks_that_are_read_again_and_again() -> None:
    """GIVEN two chunks of 60 MB, each the other's predecessor, and 200,000 frames, by turns in one and the other.
    Read as often as frames ask for them, they are 12 TB; past the limit frames are read one by one."""
    size, count = 60 * MB, 100_000
    starts = (FRAMES, FRAMES + (1 << 32))
    frames = [start + 24 for start in starts]
    image = program(frames[0], starts[0], starts[0] + size)
    for here, there in (0, 1), (1, 0):
        # Frame n of one side goes on to frame n of the other, and that to frame n + 1 of this one.
        words = b"".join(
            struct.pack("<QQQQ", frames[there] + FRAME_SIZE * (n + here), CODE, CODE + 44, 0) for n in range(count)
        )
        words += struct.pack("<QQQQ", 0, 0, 0, 3)  # the shim, behind the last frame of both
        image.add_bytes(starts[here], chunk(starts[there], size) + words)
        image.add_zeros(starts[here], size + 4096)
    walk = Walk(image, CHUNKED)
    assert (len(walk.frames), walk.loss) == (2 * count, "none")


def test_more_code_than_anyone_has_written() -> None:
    """GIVEN 10,000 frames, each with a code object of its own that has a line table of 4 MB: 40 GB to read and keep."""
    count, table = 10_000, 1 << 41
    codes = 1 << 42
    image = program(FRAMES)
    image.add_bytes(table, struct.pack("<QQQ", 0, 4 * MB, 1))
    image.add_zeros(table, 4 * MB + 24)
    image.add_bytes(codes, code(line_table=table) * count)
    frames = bytearray(linked(count))
    for number in range(count):
        struct.pack_into("<Q", frames, 24 * number + 8, codes + number * len(code()))
    image.add_bytes(FRAMES, bytes(frames))
    walk = Walk(image, LINKED)
    assert walk.loss == "depth"
    assert len(walk.codes) == len(walk.frames)
    assert sum(len(code[-1]) for code in walk.codes) <= 24 * MB


def test_a_program_with_much_code_is_told_in_several_samples() -> None:
    """GIVEN 20 code objects with line tables of 1 MB, which is honest: what one sample leaves out the next one has."""
    count, table, codes = 20, 1 << 41, 1 << 42
    image = program(FRAMES)
    image.add_bytes(table, struct.pack("<QQQ", 0, MB, 1))
    image.add_zeros(table, MB + 24)
    image.add_bytes(codes, code(line_table=table) * count)
    frames = bytearray(linked(count))
    for number in range(count):
        struct.pack_into("<Q", frames, 24 * number + 8, codes + number * len(code()))
    image.add_bytes(FRAMES, bytes(frames))
    reader = _native.PythonReader(image, LINKED, _native.RuntimeAddresses(HEAD))
    first, loss, _ = reader.stack(THREAD, INTERPRETER, 7)
    assert (loss, 0 < len(first) < count) == ("depth", True)
    second, loss, _ = reader.stack(THREAD, INTERPRETER, 7)
    assert (loss, len(second)) == ("none", count)
    assert second[: len(first)] == first


@pytest.mark.parametrize("length", [1, 2, 1000])
def test_thread_lists_in_a_circle(length: int) -> None:
    """GIVEN thread states of which the last one goes on to the first."""
    image = _native.ImageMemory()
    at = 1 << 42
    image.add_bytes(HEAD, struct.pack("<Q", INTERPRETER))
    image.add_bytes(INTERPRETER, struct.pack("<QQ", 0, at))
    image.add_bytes(at, b"".join(thread(0, following=at + (n + 1) % length * 48) for n in range(length)) + bytes(64))
    states, loss = _native.PythonReader(image, LINKED, _native.RuntimeAddresses(HEAD)).threads()
    assert loss == "cycle"
    assert length <= len({address for address, *_ in states}) <= len(states) <= 3 * length + 2


def test_interpreters_in_a_circle() -> None:
    """GIVEN two interpreters, each behind the other."""
    image = _native.ImageMemory()
    image.add_bytes(HEAD, struct.pack("<Q", INTERPRETER))
    image.add_bytes(INTERPRETER, struct.pack("<QQQQ", INTERPRETER + 16, 0, INTERPRETER, 0))
    states, loss = _native.PythonReader(image, LINKED, _native.RuntimeAddresses(HEAD)).threads()
    assert (states, loss) == ([], "cycle")


def test_a_code_object_that_was_freed() -> None:
    """GIVEN a frame whose code is an object of another type than the code objects before it."""
    image = program(FRAMES)
    image.add_bytes(1 << 42, struct.pack("<QQQQii", NAME, NAME, NAME, NAME, 1, 0))
    frames = bytearray(linked(3))
    struct.pack_into("<Q", frames, 24 + 8, 1 << 42)
    image.add_bytes(FRAMES, bytes(frames))
    walk = Walk(image, LINKED)
    assert (len(walk.frames), walk.loss) == (1, "not-code")


def test_a_name_longer_than_any() -> None:
    """GIVEN a name that says that it has 2^63 bytes."""
    image = _native.ImageMemory()
    image.add_bytes(NAME, struct.pack("<QQ", 0, 1 << 63) + text(b"f"))
    rest = program(FRAMES)
    for address, size in (HEAD, 8), (INTERPRETER, 16), (THREAD, 48), (CODE, 40):
        image.add_bytes(address, rest.read(address, size))
    image.add_bytes(FRAMES, linked(3))
    walk = Walk(image, LINKED)
    assert (walk.frames, walk.loss) == ([], "not-code")
