"""The report as data, for programs."""

from __future__ import annotations

from typing import Any

from weft.capture import Capture
from weft.profile.gil import Function, blame
from weft.profile.quality import Account
from weft.profile.tables import Profile, View
from weft.profile.transform import Cost, by_function, by_line, by_state, costs
from weft.profile.units import BYTES, Unit
from weft.sample import State


def as_dict(capture: Capture, view: View) -> dict[str, Any]:
    """The report as data: everything, not only the top. Times are in ns; in mode alloc, weights are bytes."""
    everything = Profile.from_capture(capture, view._replace(idle=True))
    profile = everything if view.idle else everything.active()
    states = by_state(everything)
    unit = profile.unit.name
    return {
        "meta": profile.meta,
        "idle": view.idle,
        "duration_ns": profile.duration_ns,
        f"weight_{unit}": profile.weight_ns,
        "ticks": profile.ticks,
        "processes": [
            {
                "id": process.id,
                "pid": process.pid,
                "parent": process.parent,
                "command": list(process.command),
                "runtime": process.runtime,
                "exit_status": process.exit_status,
            }
            for process in profile.processes.values()
        ],
        "threads": [
            {
                "id": thread.id,
                "process": thread.process,
                "tid": thread.tid,
                "name": thread.name,
                **_states_dict(states[thread.id], profile.unit),
            }
            for thread in everything.threads.values()
        ],
        "functions": _costs_dicts(costs(profile, by_function), "first_line", unit),
        "lines": _costs_dicts(costs(profile, by_line), "line", unit),
        "gil_waits": [
            {
                "waiter": each.waiter,
                "waiter_function": _function_dict(each.waiter_function),
                "holder": each.holder,
                "holder_function": _function_dict(each.holder_function),
                "weight_ns": each.weight_ns,
            }
            for each in blame(capture, everything)
        ],
        "account": Account.from_capture(capture).as_dict(),
    }


def _states_dict(states: dict[State, int], unit: Unit) -> dict[str, int]:
    if unit is BYTES:
        return {"allocated_bytes": sum(states.values())}
    return {f"{state.name.lower()}_ns": weight_ns for state, weight_ns in states.items()}


def _function_dict(function: Function | None) -> dict[str, Any] | None:
    return dict(zip(("function", "file", "first_line"), function, strict=True)) if function else None


def _costs_dicts(rows: dict[tuple[str, str, int], Cost], line_name: str, unit: str) -> list[dict[str, Any]]:
    return [
        {
            "function": function,
            "file": file,
            line_name: line,
            f"self_{unit}": cost.self_ns,
            f"total_{unit}": cost.total_ns,
            "ticks": cost.ticks,
        }
        for (function, file, line), cost in sorted(rows.items(), key=lambda row: (-row[1].self_ns, row[0]))
    ]
