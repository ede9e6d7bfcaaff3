"""Names for native frames while they are recorded, found by a thread of its own: opening a module can take seconds."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from weft.capture import Place
from weft.errors import MemoryReadError, TargetError
from weft.sample import Frame
from weft.symbolize.debuginfod import Debuginfod
from weft.symbolize.kernel import KernelNames, kernel_frame
from weft.symbolize.resolver import Resolver
from weft.target.code import CodeModule, open_files
from weft.target.elf import ElfError
from weft.target.image import Image
from weft.target.maps import Module, modules
from weft.target.process import Process

_VDSO: Final = "[vdso]"

Modules = Mapping[int, tuple[str, str | None]]  # number -> path in the target, build-id
Named = dict[int, list[Frame]]  # the capture's ids of frames -> functions at their place, outermost first


class LiveNames:
    """Names frames of processes that run now, on this machine. What cannot be named stays without a name."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Sequence[Place], Modules, Collection[int]] | None] = SimpleQueue()
        self._named: SimpleQueue[Named] = SimpleQueue()
        self._resolvers: dict[int, Resolver | None] = {}
        self._kernel: KernelNames | None = None
        self._servers = Debuginfod()
        self._works = False
        self._thread = threading.Thread(target=self._work, name="weft-names", daemon=True)
        self._thread.start()

    def ask(self, places: Sequence[Place], of: Modules, pids: Collection[int]) -> None:
        """Ask for the names of frames; `pids`: the processes that may have the modules mapped."""
        if places:
            self._asked.put((places, of, pids))

    @property
    def is_busy(self) -> bool:
        """Whether there may be more to come."""
        return self._works or not self._asked.empty()

    @property
    def has_news(self) -> bool:
        """Whether there is something to take."""
        return not self._named.empty()

    def take(self) -> Named:
        """What has been named since the last time."""
        named: Named = {}
        while not self._named.empty():
            named |= self._named.get()
        return named

    def close(self) -> None:
        """End; a module that is being opened is not waited for."""
        self._asked.put(None)

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            self._works = True
            places, of, pids = asked
            by_module: dict[int | None, list[Place]] = {}
            for place in places:
                by_module.setdefault(place.module, []).append(place)
            for number, there in by_module.items():
                self._named.put(self._name(number, there, of, pids))
            self._works = False
        for resolver in self._resolvers.values():
            if resolver:
                resolver.close()

    def _name(self, number: int | None, places: Sequence[Place], of: Modules, pids: Collection[int]) -> Named:
        if number is None:
            if self._kernel is None:
                self._kernel = KernelNames()
            functions = self._kernel.at({place.address for place in places})
            return {place.frame: [kernel_frame(functions[place.address])] for place in places}
        if number not in self._resolvers:
            self._resolvers[number] = self._resolver(*of[number], pids) if number in of else None
        resolver = self._resolvers[number]
        return {place.frame: resolver.at(place.address) for place in places} if resolver else {}

    def _resolver(self, path: str, build_id: str | None, pids: Collection[int]) -> Resolver | None:
        for pid in pids:
            with suppress(TargetError, MemoryReadError, ElfError, OSError):
                target = Process(pid)
                mappings = target.maps()
                vdso = [Module((mapping,)) for mapping in mappings if mapping.path == _VDSO]
                for module in modules(mappings) + vdso:
                    if module.path != path:
                        continue
                    image = Image(target.memory, module)
                    if build_id in (None, image.build_id):
                        code = CodeModule(1, path, image.build_id)
                        open_files(target, image, code)
                        return Resolver(code, self._servers)
        return None
