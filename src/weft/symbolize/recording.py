"""Names for the native frames of a recording, once it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.sample import Frame
from weft.symbolize.kernel import kernel_frame, kernel_functions
from weft.symbolize.resolver import Resolver
from weft.target.code import CodeBook


def symbolize_kernel(frames: Mapping[int, int]) -> Iterator[tuple[int, list[Frame]]]:
    """Yield the id of each frame in the kernel with its function; `frames`: id -> address."""
    functions = kernel_functions(set(frames.values()))
    for frame_id, address in frames.items():
        yield frame_id, [kernel_frame(functions[address])]


def symbolize(book: CodeBook, frames: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, list[Frame]]]:
    """Yield each frame's id with its functions, outermost first; `frames`: id -> (module, address in it).

    Frames in no module are left out.
    """
    by_module: dict[int, dict[int, list[int]]] = {}
    for frame_id, (number, address) in frames.items():
        by_module.setdefault(number, {}).setdefault(address, []).append(frame_id)
    for number, addresses in by_module.items():
        module = book.modules.get(number)
        if module is None:
            continue
        resolver = Resolver(module)
        for address, ids in addresses.items():
            functions = resolver.at(address)
            for frame_id in ids:
                yield frame_id, functions
