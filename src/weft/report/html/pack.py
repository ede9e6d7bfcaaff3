"""The container of the page's data: a head of JSON and columns of whole numbers, compressed; in a file, as text.

    zlib( length of the head, 4 bytes, little endian | head, UTF-8 | column | column | ... )

`head["columns"]` lists the columns in their order as [name, count, width, code]. A column is `width` planes of `count`
bytes: the lowest byte of every number, then the next one of every number, so that deflate finds what they have in
common. code 0: the numbers themselves, unsigned; 1: zigzag (0, -1, 1, -2 are 0, 1, 2, 3); 2: zigzag of the difference
to the number before. data.js reads it.
"""

from __future__ import annotations

import base64
import json
import zlib
from array import array
from collections.abc import Iterable, Mapping
from itertools import chain
from operator import sub
from typing import Any, Final

PLAIN, ZIGZAG, DELTA = range(3)
LEVEL: Final = 7  # of zlib: 9 takes three times as long for 1 %
_TYPES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Packer:
    """Collects columns."""

    def __init__(self) -> None:
        self._index: list[tuple[str, int, int, int]] = []
        self._parts: list[bytes] = []

    def add(self, name: str, values: Iterable[int], code: int = PLAIN) -> None:
        """A column; PLAIN ones hold no negative number, and none has more than 63 bits."""
        numbers = values if isinstance(values, list | array) else list(values)
        if code == DELTA:
            numbers = array("q", map(sub, numbers, chain((0,), numbers)))
        if code != PLAIN:
            numbers = array("Q", ((n << 1) ^ (n >> 63) for n in numbers))
        most = max(numbers, default=0)
        width = next(width for width in _TYPES if most < 1 << 8 * width)
        packed = array(_TYPES[width], numbers).tobytes()  # the machine is little endian, as all that weft runs on
        self._index.append((name, len(numbers), width, code))
        self._parts += (packed[plane::width] for plane in range(width))

    def pack(self, head: Mapping[str, Any], level: int = LEVEL) -> bytes:
        """All of it; `head` is what goes beside the columns, `level` zlib's."""
        document = json.dumps({**head, "columns": self._index}, ensure_ascii=False, separators=(",", ":")).encode(
            errors="backslashreplace"
        )
        squeezer = zlib.compressobj(level)
        parts = [squeezer.compress(part) for part in (len(document).to_bytes(4, "little"), document, *self._parts)]
        return b"".join((*parts, squeezer.flush()))

    def text(self, head: Mapping[str, Any]) -> str:
        """The same as base64."""
        return base64.b64encode(self.pack(head)).decode("ascii")
