"""The honest account: how much of what was asked for a recording has, and what the recording cost the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from weft.capture import Capture
from weft.profile.names import escape
from weft.profile.units import TIME, Unit, amount, duration, share, size, unit_of

# The keys of the table `account` that the text tells; the data has all that are there. docs/account.md explains them.
KEYS = (
    "samples_wanted",
    "samples_taken",
    "samples_late",
    "samples_dropped",
    "changes_lost",
    "stacks_whole",
    "stacks_truncated",
    "stacks_incomplete_frames",
    "stacks_retaken",
    "stacks_in_kernel",
    "stacks_read_late",
    "stacks_waiting",
    "stacks_still",
    "stacks_moving",
    "stays",
    "stays_estimated",
    "kernel_stacks",
    "kernel_hidden",
    "native_whole",
    "native_truncated",
    "seams_proven",
    "seams_counted",
    "seams_open",
    "stops",
    "holds",
    "hold_ns_total",
    "hold_ns_max",
    "hold_ns_median",
    "hold_ns_p99",
    "syscalls_interrupted",
    "profiler_cpu_ns",
    "sampler_cpu_ns",
    "recorded_ns",
    "cpu_clocks",
    "cpu_clocks_refused",
    "allocation_calls",
    "allocation_bytes",
    "allocations_refused",
    "probes_late",
    "probes_late_ns_max",
    "probes_missed",
)

PEEK_WARNING = (
    "collector peek: {moving} of the stacks were read while their threads could run, and those that did not hold still "
    "were rejected; this profile leans towards code that rarely calls"
)
_MOVING = 0.01  # share of the samples from which on the profile leans


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for which samples are missing (weight_ns > 0, the time or bytes they stood for) or degraded (0)."""

    reason: str
    count: int
    weight_ns: int


@dataclass(frozen=True, slots=True)
class Account:
    """The honest account of one recording. Times are in ns."""

    counts: dict[str, int]  # KEYS in their order, 0 where the recorder said nothing; then any others
    lost: tuple[Reason, ...]
    degraded: tuple[Reason, ...]
    collector: str
    collector_reason: str  # why it is not the one that weft would rather have taken; "" if it is
    pacer: str
    ended: str  # why the recording ended early; "" if it did not
    complete: bool  # whether the recorder ended it; False: it still runs, or was killed
    warnings: tuple[str, ...]
    imported: str = ""  # the form of another tool's profile that it was made of; "": weft has recorded it
    unit: Unit = TIME  # of what is lost

    @classmethod
    def from_capture(cls, capture: Capture) -> Self:
        """The account of a capture so far; raises CaptureError."""
        stored = capture.account()
        reasons: dict[str, list[int]] = {}
        for loss in capture.losses():
            total = reasons.setdefault(loss.reason, [0, 0])
            total[0] += loss.count
            total[1] += loss.weight_ns
        all_reasons = sorted((Reason(name, *total) for name, total in reasons.items()), key=lambda r: -r.count)
        collector = str(capture.meta.get("collector", ""))
        ended = str(capture.meta.get("ended", ""))
        complete = "end_ns" in capture.meta
        return cls(
            counts=dict.fromkeys(KEYS, 0) | stored,
            lost=tuple(reason for reason in all_reasons if reason.weight_ns > 0),
            degraded=tuple(reason for reason in all_reasons if reason.weight_ns <= 0),
            collector=collector,
            collector_reason=str(capture.meta.get("collector_reason", "")),
            pacer=str(capture.meta.get("pacer", "")),
            ended=ended,
            complete=complete,
            warnings=(*_import_warnings(capture), *_warnings(collector, stored, ended, complete)),
            imported=str(capture.meta.get("imported", "")),
            unit=unit_of(str(capture.meta.get("mode", ""))),
        )

    @property
    def lost_count(self) -> int:
        """Samples that are missing, whatever the reason."""
        return sum(reason.count for reason in self.lost)

    @property
    def summary(self) -> str:
        """The counts that matter, on one line."""
        counts = self.counts
        if self.imported:
            return f"{amount(counts['samples_taken'], 'sample')}, imported from {escape(self.imported)}"
        parts = [
            f"{counts['samples_taken']:,} of {amount(counts['samples_wanted'], 'sample')}",
            f"{counts['samples_late']:,} late",
            f"{self.lost_count:,} lost",
            f"{counts['stacks_truncated']:,} truncated",
        ]
        if self.degraded:
            parts.append(f"{sum(reason.count for reason in self.degraded):,} degraded")
        return " · ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """The account as data, for JSON."""
        return {
            **self.counts,
            "lost": _as_dicts(self.lost, self.unit),
            "degraded": _as_dicts(self.degraded, self.unit),
            "collector": self.collector,
            "collector_reason": self.collector_reason,
            "pacer": self.pacer,
            "ended": self.ended,
            "complete": self.complete,
            "warnings": list(self.warnings),
        }

    def rows(self) -> list[tuple[str, str]]:
        """The account as (subject, what there is to say) for a reader."""
        counts = self.counts
        if self.imported:
            told = [("samples", f"{counts['samples_taken']:,}"), ("imported", f"from {escape(self.imported)}")]
            return told + [("warning", escape(warning)) for warning in self.warnings]
        taken, wanted = counts["samples_taken"], counts["samples_wanted"]
        dropped, in_kernel = counts["samples_dropped"], counts["stacks_in_kernel"]
        late_pages, times_lost = counts["stacks_read_late"], counts["changes_lost"]
        taken_share = f" ({share(taken, wanted)})" if wanted else ""
        rows = [
            (
                "samples",
                f"{wanted:,} wanted, {taken:,} taken{taken_share}, {counts['samples_late']:,} late"
                + (f", {dropped:,} dropped" if dropped else "")
                + (f"; what processes did was lost {times_lost:,} times" if times_lost else ""),
            ),
            ("lost", _told(self.lost, self.unit)),
            (
                "stacks",
                f"{counts['stacks_whole']:,} whole, {counts['stacks_truncated']:,} truncated, "
                f"{counts['stacks_incomplete_frames']:,} with an incomplete frame, "
                f"{counts['stacks_retaken']:,} taken again",
            ),
            (
                "read",
                (f"{in_kernel:,} in the kernel, " if in_kernel else "")
                + (f"{late_pages:,} of them with pages read late, " if late_pages else "")
                + f"{counts['stacks_waiting']:,} waiting for a CPU, {counts['stacks_still']:,} blocked, "
                f"{counts['stops']:,} stopped, {counts['stacks_moving']:,} moving",
            ),
        ]
        if counts["allocation_calls"]:
            rows.append(("asked for", self._asked_for()))
        if counts["stays"]:
            rows.append(
                (
                    "off CPU",
                    f"{amount(counts['stays'], 'stay')} with a stack and an exact time, "
                    f"{counts['stays_estimated']:,} whose time is exact and whose stack is estimated",
                )
            )
        if counts["native_whole"] or counts["native_truncated"]:
            rows.append(
                (
                    "native",
                    f"{counts['native_whole']:,} whole, {counts['native_truncated']:,} truncated; seams: "
                    f"{counts['seams_proven']:,} proven, {counts['seams_counted']:,} counted, "
                    f"{counts['seams_open']:,} open",
                )
            )
            hidden = counts["kernel_hidden"]
            by_kernel = counts["stacks_in_kernel"] > 0
            why_hidden = "" if by_kernel else ": it tells them to root only; see weft doctor"
            rows.append(
                (
                    "kernel",
                    f"{amount(counts['kernel_stacks'], 'stack')} with its frames"
                    + (f", {hidden:,} without{why_hidden}" if hidden else ""),
                )
            )
        if self.degraded:
            rows.append(("degraded", _told(self.degraded, self.unit)))
        rows.append(("held", self._held()))
        rows.append(("profiler", self._cost()))
        rows.append(("collector", escape(self._method())))
        rows.extend(("warning", escape(warning)) for warning in self.warnings)
        return rows

    def lines(self) -> list[str]:
        """The account as lines of text."""
        return [f"{subject:<10}{text}" for subject, text in self.rows()]

    def _asked_for(self) -> str:
        counts = self.counts
        late, missed, refused = counts["probes_late"], counts["probes_missed"], counts["allocations_refused"]
        told = f"{size(counts['allocation_bytes'])} in {amount(counts['allocation_calls'], 'call')}, counted one by one"
        if late:
            longest = duration(counts["probes_late_ns_max"])
            told += f"; {late:,} of the processes not from the beginning on, but at most {longest} later"
        if missed:
            told += f"; {missed:,} of the processes not at all: they ended before that"
        return told + (f"; {amount(refused, 'call')} for more than there can be, not counted" if refused else "")

    def _held(self) -> str:
        counts = self.counts
        if not counts["holds"]:
            return "the target never waited"
        return (
            f"{duration(counts['hold_ns_total'])} in {amount(counts['holds'], 'sample')}, one thread at a time; "
            f"median {duration(counts['hold_ns_median'])}, 99 % below {duration(counts['hold_ns_p99'])}, "
            f"longest {duration(counts['hold_ns_max'])}; "
            f"{amount(counts['syscalls_interrupted'], 'system call')} interrupted"
        )

    def _cost(self) -> str:
        cpu_ns, recorded_ns = self.counts["profiler_cpu_ns"], self.counts["recorded_ns"]
        spent = f"{duration(cpu_ns)} of CPU, {duration(self.counts['sampler_cpu_ns'])} of them to sample"
        return (
            f"{spent}; {share(cpu_ns, recorded_ns)} of one core for {duration(recorded_ns)}" if recorded_ns else spent
        )

    def _method(self) -> str:
        if not self.pacer:
            return self.collector
        why = f"; not bpf: {self.collector_reason}" if self.collector_reason else ""
        clocks, refused = self.counts["cpu_clocks"], self.counts["cpu_clocks_refused"]
        told = f" ({amount(clocks, 'CPU clock')}, {refused:,} refused)" if clocks or refused else ""
        return f"{self.collector}, paced by {self.pacer}{told}{why}"


def _import_warnings(capture: Capture) -> Iterator[str]:
    yield from (line for line in str(capture.meta.get("import_warnings", "")).split("\n") if line)


def _warnings(collector: str, counts: Mapping[str, int], ended: str, complete: bool) -> Iterator[str]:
    moving, taken = counts.get("stacks_moving", 0), counts.get("samples_taken", 0)
    if collector == "peek" and moving > _MOVING * taken:
        yield PEEK_WARNING.format(moving=share(moving, taken))
    if not complete:
        yield "the recording has not ended: it still runs, or weft was killed; its last second may be missing"
    if ended:
        yield f"the recording ended early: {ended}"


def _told(reasons: Iterable[Reason], unit: Unit) -> str:
    """Reasons as text: 12 (unreadable 8, cycle 4), 14 ms."""
    reasons = tuple(reasons)
    if not reasons:
        return "0"
    weight_ns = sum(reason.weight_ns for reason in reasons)
    each = ", ".join(f"{escape(reason.reason)} {reason.count:,}" for reason in reasons)
    weight = f", {unit.text(weight_ns)}" if weight_ns > 0 else ""
    return f"{sum(reason.count for reason in reasons):,} ({each}){weight}"


def _as_dicts(reasons: Iterable[Reason], unit: Unit) -> list[dict[str, Any]]:
    return [{"reason": item.reason, "count": item.count, f"weight_{unit.name}": item.weight_ns} for item in reasons]
