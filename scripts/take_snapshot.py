"""Take a snapshot of a Python process for tests/fuzz: `take_snapshot.py PID FILE`.

The process must stand still. Without arguments: starts tests/targets/still.py under every interpreter that the tests
find, and writes the files in tests/fuzz/snapshots anew.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from weft import _native
from weft.cpython.layout import ABSENT
from weft.cpython.locate import find_runtime

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path += [str(TESTS), str(TESTS / "fuzz")]

from interpreters import Interpreter, all_interpreters  # noqa: E402
from snapshots import FOLDER, Snapshot, walk  # noqa: E402

MAX_GAP = 256  # bytes between two spans that become one: less than a page, so they are mapped


def merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, as ranges [start, end) that do not overlap."""
    ranges: list[tuple[int, int]] = []
    for address, size in spans:
        if ranges and address <= ranges[-1][1] + MAX_GAP:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], address + size))
        else:
            ranges.append((address, address + size))
    return ranges


def without_home(data: bytes) -> bytes:
    """Replace the home directory in paths by a word of its length: it is nobody's business."""
    home = str(Path.home()).encode()
    return data.replace(home + b"/", b"/" + b"h" * (len(home) - 1) + b"/")


def take(pid: int) -> Snapshot:
    """Walk the live process, note what was read, and see that the snapshot says the same."""
    runtime = find_runtime(pid)
    layout = {name: number for name, number in runtime.layout.numbers().items() if number != ABSENT}
    addresses = asdict(runtime.addresses)
    del addresses["current_state"]  # for the kernel, which reads it in a thread's own storage
    process = _native.ProcessMemory(pid)
    recording = _native.RecordingMemory(process)
    live = walk(recording, layout, addresses)
    ranges = merge(recording.spans())
    bytes_of = [(start, process.read(start, end - start)) for start, end in ranges]
    assert walk(Snapshot(layout, addresses, bytes_of, {}).memory(), layout, addresses) == live, (
        "it does not stand still"
    )
    clean = Snapshot(layout, addresses, [(start, without_home(data)) for start, data in bytes_of], {})
    return Snapshot(layout, addresses, clean.segments, walk(clean.memory(), layout, addresses))


def take_of(interpreter: Interpreter) -> None:
    """Start the program under an interpreter and write its snapshot."""
    program = (interpreter.chroot or Path("/")) / "tmp/still.py"
    shutil.copy(TESTS / "targets/still.py", program)
    target = subprocess.Popen(
        [*interpreter.command, "/tmp/still.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert target.stdin is not None
    assert target.stdout is not None
    with target:
        assert target.stdout.readline() == "ready\n"
        time.sleep(1)  # until the last thread is in its read
        path = FOLDER / f"{interpreter.name}.json.gz"
        snapshot = take(target.pid)
        snapshot.save(path)
        size = sum(len(data) for _, data in snapshot.segments)
        print(f"{path.name}: {len(snapshot.segments)} segments, {size} bytes, {path.stat().st_size} in the file")
        target.stdin.close()
    program.unlink()


def main() -> None:
    """One, or all."""
    if len(sys.argv) == 3:
        take(int(sys.argv[1])).save(Path(sys.argv[2]))
        return
    FOLDER.mkdir(exist_ok=True)
    for interpreter in all_interpreters():
        take_of(interpreter)


if __name__ == "__main__":
    main()
