"""The kernel's part of collector bpf, while a recording lasts: its maps, its programs, and what these run at."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from weft import _native
from weft.collect.bpf.allocator import AllocatorProbes
from weft.collect.bpf.kernel import (
    MMAPABLE,
    File,
    Map,
    MapKind,
    ProgramKind,
    are_probes_linked,
    attach,
    enable_clock,
    open_clocks,
    possible_cpus,
)
from weft.collect.bpf.program import Object
from weft.collect.bpf.tables import KernelTables, RowChunks
from weft.collect.choose import pid_namespace
from weft.errors import CollectorError

# Bytes of the ring: what comes while the sampler waits for a CPU. A sample has 6 KB with 30 frames, 92 with 1,000.
_LEAST_RING, _MOST_RING = 8 << 20, 64 << 20
_RING_FOR_A_TICK = 4096  # for most of a second's ticks of all CPUs
_RING_FOR_ALLOCATIONS = 16 << 20  # which no rate bounds
# Of 34 KB each, 2 without native stacks. Room that the kernel looks for when it is needed may not be found: in one
# piece, and without waiting.
_PROCESSES = 1024
_FEW_PROCESSES = 16  # where none but those that are told of now will be sampled
_IGNORED = 16384  # of those that were not used for longest, it is asked again whether they are
_THREADS = 65536
_FEW_THREADS = 16384  # of one process
# On each CPU so many clocks, with periods of their own, that each ticks at about this rate. They tick together as if
# they remembered nothing; one alone falls into step with a program that has a rhythm (design 0006).
_SLOW_HZ = 8
_MOST_CLOCKS = 64
_MOST_CLOCKS_IN_ALL = 2048  # each is a file
_TRACEPOINTS = ("sched_switch", "sched_waking")


class KernelCollector:
    """Takes samples of the processes that it is told of, from start() to close(). CollectorError.

    native: with their native stacks. switches: also of threads that leave their CPU. allocations: only of threads that
    ask for memory, at `probes`. follow_processes: processes that begin later are sampled, too.
    """

    def __init__(
        self,
        rate_hz: int,
        *,
        native: bool = True,
        switches: bool = True,
        allocations: bool = False,
        follow_processes: bool = False,
    ) -> None:
        program = Object(_native.BPF_OBJECT)
        cpus = possible_cpus()
        cache = program.size_of("rule_cache")
        walks = cpus * (_native.BPF_PLACES if allocations else 1)  # at one time
        # As large as the programs take them for (bpf/abi.h); those without native stacks never look there.
        pages, rules = (_native.BPF_PAGES, _native.BPF_RULES) if native else (1, 1)
        processes, threads = (_PROCESSES, _THREADS) if follow_processes else (_FEW_PROCESSES, _FEW_THREADS)
        # Mappings come last in it, and are looked for in native walks only: 32 of its 34 KB.
        unused = 0 if native else _native.BPF_MAPPINGS * program.size_of("weft_mapping")
        process = program.size_of("weft_process") - unused
        ring_bytes = _RING_FOR_ALLOCATIONS if allocations else _ring_bytes(rate_hz * (os.cpu_count() or 1))
        try:
            self._rows = RowChunks(wanted=native)
            self._maps = {
                "processes": Map(MapKind.HASH, 4, process, processes),
                "ignored": Map(MapKind.LRU_HASH, 4, 1, _IGNORED),
                "others": Map(MapKind.ARRAY, 4, process, 1),
                "name_space": Map(MapKind.ARRAY, 4, 4, 1),
                "tables": Map(MapKind.HASH, 4, program.size_of("weft_table"), KernelTables.MOST),
                "pages": Map(MapKind.ARRAY, 4, pages * 4, 1, MMAPABLE),
                "rows": self._rows.map,
                "rules": Map(MapKind.ARRAY, 4, rules * program.size_of("weft_rule"), 1, MMAPABLE),
                "scratches": Map(MapKind.ARRAY, 4, program.size_of("scratch"), walks),
                "caches": Map(MapKind.ARRAY, 4, cache, walks),
                "codes": Map(MapKind.ARRAY, 4, program.size_of("told_codes"), 1),
                "states": Map(MapKind.LRU_HASH, 4, program.size_of("weft_state"), threads),
                "threads": Map(MapKind.HASH, 4, program.size_of("weft_thread"), threads if switches else 1),
                "rates": Map(MapKind.ARRAY, 4, program.size_of("weft_rate"), cpus),
                "allocations": Map(MapKind.ARRAY, 4, program.size_of("weft_allocations"), cpus),
                "lost": Map(MapKind.PER_CPU_ARRAY, 4, 8, 1),
                "ring": Map(MapKind.RING, 0, 0, ring_bytes),
            }
        except OSError as error:
            raise CollectorError(
                f"the kernel refuses BPF maps ({error.strerror}): collector bpf needs CAP_BPF and CAP_PERFMON, or root"
            ) from error
        self._maps["name_space"][struct.pack("<I", 0)] = struct.pack("<I", pid_namespace())
        at_tracepoints = {name: f"raw_tp/{name}" for name in _TRACEPOINTS if switches}
        kinds = dict.fromkeys(at_tracepoints.values(), ProgramKind.RAW_TRACEPOINT)
        linked = allocations and are_probes_linked(follow_processes=follow_processes)
        if allocations:
            kinds["kprobe/allocation"] = ProgramKind.LINKED_PROBES if linked else ProgramKind.PROBE
        else:
            kinds["perf_event"] = ProgramKind.PERF_EVENT
        self._programs = self._load(program, kinds, native=native)
        self._at_tracepoints = {name: self._programs[section] for name, section in at_tracepoints.items()}
        self._clocks: list[list[File]] = []  # by CPU
        self.probes: AllocatorProbes | None = None
        if allocations:
            self.probes = AllocatorProbes(self._programs["kprobe/allocation"], linked=linked)
        else:
            self._clocks = self._open_clocks(rate_hz, self._programs["perf_event"])
        self._attached: list[File] = []
        self.tables = KernelTables(
            self._maps["tables"], self._maps["pages"], self._rows, self._maps["rules"], self._maps["caches"]
        )
        self.maps = _native.KernelMaps(
            ring=self._maps["ring"].descriptor,
            ring_bytes=ring_bytes,
            processes=self._maps["processes"].descriptor,
            ignored=self._maps["ignored"].descriptor,
            others=self._maps["others"].descriptor,
            threads=self._maps["threads"].descriptor if switches else -1,
            caches=self._maps["caches"].descriptor,
            states=self._maps["states"].descriptor,
            cpus=walks,
            cache_bytes=cache,
            clocks=[[clock.descriptor for clock in clocks] for clocks in self._clocks],
        )

    def _load(self, program: Object, kinds: Mapping[str, ProgramKind], *, native: bool) -> dict[str, File]:
        """Load programs by their sections, side by side: the kernel's verifier takes 30 ms for each that walks."""
        values: dict[str, Map | int] = {**self._maps, "native_wanted": int(native)}
        with ThreadPoolExecutor() as pool:
            if native:
                pool.submit(self._rows.chunk, 0)  # what hinders it is told when it is written to
            loading = {section: pool.submit(program.load, kind, section, values) for section, kind in kinds.items()}
        return {section: loaded.result() for section, loaded in loading.items()}

    def _open_clocks(self, rate_hz: int, on_tick: File) -> list[list[File]]:
        """Clocks of each CPU, none where it is offline."""
        count = max(1, min(rate_hz // _SLOW_HZ, _MOST_CLOCKS, _MOST_CLOCKS_IN_ALL // (os.cpu_count() or 1)))
        try:
            return [open_clocks(cpu, _periods_ns(rate_hz, count), on_tick) for cpu in range(possible_cpus())]
        except PermissionError as error:
            raise CollectorError("the kernel refuses clocks of CPUs: collector bpf needs CAP_PERFMON") from error
        except OSError as error:
            raise CollectorError(f"the kernel refuses clocks of {rate_hz} Hz: {error.strerror}") from error

    def start(self) -> None:
        """Let the clocks of all CPUs tick, and the switches of threads be told."""
        for name, program in self._at_tracepoints.items():
            try:
                self._attached.append(attach(name, program))
            except OSError as error:
                raise CollectorError(f"the kernel refuses its tracepoint {name}: {error.strerror}") from error
        for clock in chain(*self._clocks):
            enable_clock(clock)

    @property
    def lost(self) -> dict[int, int]:
        """Samples that found no room in the ring, by the CPU that they were taken on; of CPUs that have lost some."""
        counts = self._maps["lost"][struct.pack("<I", 0)]
        return {cpu: lost for cpu, lost in enumerate(struct.unpack(f"<{len(counts) // 8}Q", counts)) if lost}

    @property
    def allocations(self) -> dict[str, int]:
        """Calls that have asked for memory, sampled or not, and the bytes that they have asked for, on all CPUs."""
        calls = total = refused = 0
        for cpu in range(possible_cpus()):
            _, calls_here, bytes_here, refused_here = struct.unpack(
                "<qQQQ", self._maps["allocations"][struct.pack("<I", cpu)]
            )
            calls += calls_here
            total += bytes_here
            refused += refused_here
        return {"allocation_calls": calls, "allocation_bytes": total, "allocations_refused": refused}

    def stop(self) -> None:
        """Let no more samples come."""
        if self.probes:
            self.probes.close()
        for each in chain(self._attached, *self._clocks):
            each.close()
        self._attached.clear()
        self._clocks.clear()

    def close(self) -> None:
        """Take everything out of the kernel. The sampler must have ended."""
        self.stop()
        for program in self._programs.values():
            program.close()
        self._rows.close()
        for each in self._maps.values():
            each.close()


def _ring_bytes(ticks: int) -> int:
    """The size of the ring for so many ticks a second: a power of two, as the kernel wants it."""
    wanted = ticks * _RING_FOR_A_TICK
    return min(max(_LEAST_RING, 1 << (wanted - 1).bit_length()), _MOST_RING)


def _periods_ns(rate_hz: int, count: int) -> list[int]:
    """The periods with which the clocks of a CPU begin. The first keeps the rate alone until the others tick, too."""
    # In pairs that have their share together (KernelClocks).
    factors = [each for drawn in (random.uniform(0.5, 1.5) for _ in range(count)) for each in (drawn, 2 - drawn)]  # noqa: S311
    rates_hz = [float(rate_hz), *(rate_hz / count * factor for factor in factors[1:count])]
    return [round(1e9 / rate) for rate in rates_hz]
