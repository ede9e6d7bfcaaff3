"""Following the processes of a recording in mode alloc: their allocator is probed as soon as they have one."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.collect.sampler import Event, EventKind
from weft.errors import CollectorError, TargetError

if TYPE_CHECKING:
    from weft.collect.bpf.allocator import AllocatorProbes

_PATIENCE = 1.0  # seconds in which a process that has begun is looked at again and again, until its libc is mapped


@dataclass(slots=True)
class _Beginning:
    at_ns: int  # of CLOCK_MONOTONIC
    own: bool  # nobody attached to it: it was forked, or has become another program, while it was recorded


class AllocationFollower:
    """Keeps the probes where the processes are; does nothing in other modes."""

    def __init__(self, probes: AllocatorProbes | None) -> None:
        self._probes = probes
        self._beginnings: dict[int, _Beginning] = {}  # by pid, until there are probes
        self._mapped: set[int] = set()
        self._ended: set[int] = set()
        self._late: list[int] = []  # ns that such processes ran before they were probed
        self._missed = 0  # of them, that ended before

    def begin(self, pid: int) -> None:
        """Probe a process before it is recorded. CollectorError if that cannot be done, TargetError if it has ended."""
        if self._probes:
            self._probes.add(pid)
            if problem := self._probes.problems.get(pid):
                raise CollectorError(f"mode alloc cannot see what process {pid} allocates: {problem}")

    def see(self, event: Event) -> None:
        """Note what happens to processes."""
        match event.kind:
            case EventKind.PROCESS_START:
                self._ended.discard(event.id)  # it is the same process, which has become another program
                self._beginnings[event.id] = _Beginning(event.at_ns, event.parent != 0)
                self._mapped.add(event.id)
            case EventKind.PROCESS_END:
                self._ended.add(event.id)
            case EventKind.CODE_MAPPED:
                self._mapped.add(event.id)

    def look(self) -> None:
        """Probe what has come, and let go of what has ended."""
        if not self._probes:
            return
        for pid in self._ended:
            had_probes = self._probes.remove(pid)
            if (begun := self._beginnings.pop(pid, None)) and begun.own and not had_probes:
                self._missed += 1
                self._probes.problems.pop(pid, None)  # it had no time to map its libc
        for pid in (self._mapped | self._beginnings.keys()) - self._ended:
            with suppress(TargetError):  # it has ended, as we shall be told
                self._look_at(pid, self._probes)
        self._mapped.clear()
        self._ended.clear()

    def _look_at(self, pid: int, probes: AllocatorProbes) -> None:
        is_new = probes.add(pid)
        if (begun := self._beginnings.get(pid)) is None:
            return
        passed_ns = time.monotonic_ns() - begun.at_ns
        if pid not in probes.problems:
            del self._beginnings[pid]
            if begun.own and is_new:  # else it had probes before it became what it is
                self._late.append(passed_ns)
        elif passed_ns > _PATIENCE * 1e9:
            del self._beginnings[pid]

    @property
    def account(self) -> dict[str, int]:
        """What the honest account tells of it."""
        if not self._probes:
            return {}
        return {
            "probes_late": len(self._late),
            "probes_late_ns_max": max(self._late, default=0),
            "probes_missed": self._missed,
        }

    @property
    def warnings(self) -> list[str]:
        """A line for each process whose allocations were not seen; with names of files that are not escaped."""
        problems = self._probes.problems if self._probes else {}
        return [f"process {pid}: its allocations were not seen: {problem}" for pid, problem in problems.items()]
