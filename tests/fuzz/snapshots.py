"""Snapshots: the memory of a Python process that a walk reads, as a file, and what the walk of the live process said.

One file a version lies in snapshots/, gzipped JSON:

    layout       the layout, field -> number (only fields that are there)
    addresses    RuntimeAddresses
    segments     [[address, bytes in hex]], in order, none overlaps another
    walk         what `walk` returned over the process itself

scripts/take_snapshot.py makes them, of the program tests/targets/still.py.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from weft import _native

FOLDER = Path(__file__).resolve().parent / "snapshots"

Walk = dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """The file's contents."""

    layout: dict[str, int]
    addresses: dict[str, int]
    segments: list[tuple[int, bytes]]
    walk: Walk

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file."""
        fields = json.loads(gzip.decompress(path.read_bytes()))
        fields["segments"] = [(address, bytes.fromhex(data)) for address, data in fields["segments"]]
        return cls(**fields)

    def save(self, path: Path) -> None:
        """Write a file. The same snapshot gives the same bytes."""
        fields = asdict(self)
        fields["segments"] = [[address, data.hex()] for address, data in self.segments]
        path.write_bytes(gzip.compress(json.dumps(fields).encode(), 9, mtime=0))

    def memory(self) -> _native.ImageMemory:
        """The segments as memory."""
        image = _native.ImageMemory()
        for address, data in self.segments:
            image.add_bytes(address, data)
        return image

    def text(self) -> str:
        """The form that the C++ harness reads: lines of `layout NAME N`, `address NAME N` and `bytes ADDRESS HEX`."""
        lines = [f"layout {name} {number}" for name, number in self.layout.items()]
        lines += [f"address {name} {number}" for name, number in self.addresses.items()]
        lines += [f"bytes {address} {data.hex()}" for address, data in self.segments]
        return "\n".join([*lines, ""])


def all_snapshots() -> list[Path]:
    """The snapshots that there are, one a version."""
    return sorted(FOLDER.glob("*.json.gz"))


def walk(memory: _native.Memory, layout: dict[str, int], addresses: dict[str, int]) -> Walk:
    """Read all that a walk can: threads, holders of GILs, stacks, code objects; in types that JSON has."""
    reader = _native.PythonReader(memory, layout, _native.RuntimeAddresses(**addresses))
    states, loss = reader.threads()
    stacks = [reader.stack(address, interpreter, pthread) for address, interpreter, _, pthread, _ in states]
    codes = [
        (number, line, *((kind, data.hex(), cut) for kind, data, cut in texts), table.hex())
        for number, line, *texts, table in reader.codes()
    ]
    told = {"threads": states, "loss": loss, "gil_holders": reader.gil_holders(), "stacks": stacks, "codes": codes}
    plain: Walk = json.loads(json.dumps(told))
    return plain
