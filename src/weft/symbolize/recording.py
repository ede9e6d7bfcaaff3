"""Names for the native frames of a recording, once it has ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing

from weft.sample import Frame
from weft.symbolize.debuginfod import Debuginfod
from weft.symbolize.kernel import kernel_frame, kernel_functions
from weft.symbolize.problems import warnings_of
from weft.symbolize.resolver import Resolver
from weft.target.code import CodeBook, CodeModule

_MAX_AT_ONCE = 4  # modules; the debug information of a large one takes 1 GB of memory to read
_WATCH_PERIOD = 0.25  # seconds

_Found = list[tuple[list[int], list[Frame]]]  # the ids of frames, with the functions there


def symbolize_kernel(frames: Mapping[int, int]) -> Iterator[tuple[int, list[Frame]]]:
    """Yield the id of each frame in the kernel with its function; `frames`: id -> address."""
    functions = kernel_functions(set(frames.values()))
    for frame_id, address in frames.items():
        yield frame_id, [kernel_frame(functions[address])]


class Symbolizer:
    """Reads the symbols of several modules at once: processes of their own do most of the work (lines.py)."""

    def __init__(self, book: CodeBook) -> None:
        self._book = book
        self._servers = Debuginfod()
        self.warnings: list[str] = []  # once run() has ended; a line each, with names of files that are not escaped

    def run(
        self, frames: Mapping[int, tuple[int, int]], watch: Callable[[int, int], None]
    ) -> Iterator[tuple[int, list[Frame]]]:
        """Yield each frame's id with its functions, outermost first; `frames`: id -> (module, address in it).

        Frames in no module are left out. `watch` is told several times a second how many modules are done, of how many.
        """
        by_module: dict[int, dict[int, list[int]]] = {}
        for frame_id, (number, address) in frames.items():
            by_module.setdefault(number, {}).setdefault(address, []).append(frame_id)
        modules = {number: self._book.modules[number] for number in by_module if number in self._book.modules}
        with ThreadPoolExecutor(min(os.cpu_count() or 1, _MAX_AT_ONCE), "weft-symbols") as pool:
            left = {pool.submit(self._resolve, module, by_module[number]) for number, module in modules.items()}
            while left:
                done, left = wait(left, _WATCH_PERIOD, FIRST_COMPLETED)
                watch(len(modules) - len(left), len(modules))
                for future in done:
                    for ids, functions in future.result():
                        yield from ((frame_id, functions) for frame_id in ids)
        self.warnings = warnings_of(modules.values()) + self._servers.warnings

    def _resolve(self, module: CodeModule, addresses: Mapping[int, list[int]]) -> _Found:
        with closing(Resolver(module, self._servers, addresses)) as resolver:
            return [(ids, resolver.at(address)) for address, ids in addresses.items()]
