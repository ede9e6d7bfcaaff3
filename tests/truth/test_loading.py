"""Libraries that are sampled as soon as they are loaded, before anybody can have read their unwind information."""

from __future__ import annotations

import re
import select
from pathlib import Path

import pytest
from interpreters import Interpreter, all_interpreters
from recordings import account_of, losses_of, woven_stacks_of
from running import TARGETS, StartTarget
from weft_command import LIMIT_S, until
from woven_calls import has_gap
from zig import compile_with_zig

from weft import Capture, Collector, Mode, Options, Progress, record_process
from weft.sample import Frame, FrameKind

DEPTH, ROUNDS = 12, 8


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library of which each copy is one of its own, as they have no build-id."""
    folder = tmp_path_factory.mktemp("libraries")
    flags = ["-O1", "-g0", "-shared", "-fPIC", "-Wl,--build-id=none"]
    compile_with_zig(folder / "load.so", *flags, TARGETS / "loads.c")
    return folder


def interleaving(frames: tuple[Frame, ...]) -> list[str]:
    """The calls of `step` and of the libraries, outermost first; a library by how deep it is."""
    found = []
    for frame in frames:
        if frame.kind is FrameKind.PYTHON and frame.function == "step":
            found.append("step")
        elif place := re.search(r"/load-\d+-(\d+)\.so$", frame.module):
            found.append(place[1])
    return found


@pytest.mark.parametrize("collector", [Collector.PTRACE, Collector.BPF])
@pytest.mark.parametrize(
    "python",
    [one for one in all_interpreters() if one.chroot is None and one.minor in ((2, 7), (3, 10), (3, 11), (3, 13))],
    ids=lambda python: python.name,
)
def test_sampled_at_once(
    python: Interpreter, start_target: StartTarget, libraries: Path, tmp_path: Path, collector: Collector
) -> None:
    """GIVEN stacks through libraries, one more of which is loaded each 3 ms of CPU THEN they are whole, in order, and
    the capture has all that was mapped."""
    target = start_target(python, "loads.py", libraries, DEPTH, ROUNDS)
    path = tmp_path / "loads.weft"

    def is_done(_: Progress) -> bool:
        """Whether it has done its work, which this lets it begin. It does not end: an exit takes its stack away."""
        assert target.process.stdin is not None
        target.process.stdin.write(b"\n")
        target.process.stdin.flush()
        return bool(select.select([target.process.stdout], [], [], 0)[0])

    record_process(target.pid, path, Options(1000, LIMIT_S, Mode.WALL, collector), until(is_done))
    deepest = 0
    for sampled in woven_stacks_of(path):
        seen = interleaving(sampled.frames)
        legal = [part for depth in range(DEPTH + 1) for part in ("step", str(depth))]
        assert has_gap(sampled.frames) or seen == legal[: len(seen)], seen
        deepest = max(deepest, len(seen))
    with Capture(path) as capture:
        mapped = {Path(mapping.path).name for mapping in capture.mappings()}
    assert {f"load-{number}-{number % DEPTH}.so" for number in range(DEPTH * ROUNDS)} <= mapped
    account = account_of(path)
    print(f"{python.name}, {collector.value}: {account['native_truncated']} cut, {losses_of(path)}")
    assert deepest == 2 * DEPTH + 1
    assert account["native_whole"] > 150
    assert account["native_whole"] + account["native_truncated"] == account["samples_taken"]  # each is counted once
    # A tick can meet the dynamic linker where its reader cannot know the registers.
    assert account["native_truncated"] <= 0.01 * account["native_whole"]
