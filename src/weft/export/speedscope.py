"""speedscope's file format, one time line a thread: https://www.speedscope.app/file-format-schema.json"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from weft.capture import Capture
from weft.export.spans import LONGEST, events, spans
from weft.profile.names import ELIDED_FRAMES, NO_FRAME, escape, process_name, recording_name, thread_name
from weft.profile.quality import Account
from weft.profile.tables import EMPTY, Profile, View
from weft.profile.transform import ELIDED, Folded, Paths, by_function, fold
from weft.profile.units import BYTES


def render(capture: Capture, view: View) -> Iterator[bytes]:
    """Functions over time, in ns since the recording began, or in mode alloc by bytes; `line`: where one begins."""
    profile = Profile.from_capture(capture, view)
    folded = fold(profile, by_function)
    frames: list[dict[str, Any]] = [
        {"name": escape(name), "file": escape(file), "line": line} for name, file, line in folded.keys
    ]
    frames += [{"name": ELIDED_FRAMES}, {"name": NO_FRAME}]
    weights: dict[int, int] = {}
    for total in profile.totals:
        weights[total.thread] = weights.get(total.thread, 0) + total.weight_ns
    threads = list(weights)
    head = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"weft {profile.meta.get('version', '')}".strip(),
        "name": recording_name(profile.processes.values()),
        "activeProfileIndex": max(range(len(threads)), key=lambda i: weights[threads[i]], default=0),
        "shared": {"frames": frames},
        "weft": {"account": Account.from_capture(capture).as_dict()},  # other programs pass over it
    }
    yield json.dumps(head, separators=(",", ":")).encode()[:-1] + b',"profiles":['
    paths = Paths(folded.stacks, LONGEST)
    for i, thread in enumerate(threads):
        yield b"," if i else b""
        if profile.unit is BYTES:
            yield _sampled(profile, folded, paths, thread)
        else:
            yield from _evented(capture, profile, folded, paths, thread)
    yield b"]}\n"


def _name(profile: Profile, thread: int) -> str:
    row = profile.threads[thread]
    if len(profile.processes) == 1:
        return thread_name(row)
    process = profile.processes[row.process]
    return f"{process_name(process)} {process.pid} {thread_name(row)}"


def _special(folded: Folded[Any]) -> dict[int, int]:
    return {ELIDED: len(folded.keys), EMPTY: len(folded.keys) + 1}


def _sampled(profile: Profile, folded: Folded[Any], paths: Paths, thread: int) -> bytes:
    """One thread as a sampled profile: its stacks, and how much was allocated in each."""
    special = _special(folded)
    totals = [total for total in profile.totals if total.thread == thread]
    samples = [[special.get(f, f) for f in paths(folded.nodes[total.stack]) or [EMPTY]] for total in totals]
    weights = [total.weight_ns for total in totals]
    told = {"type": "sampled", "name": _name(profile, thread), "unit": "bytes", "startValue": 0}
    return json.dumps(
        {**told, "endValue": sum(weights), "samples": samples, "weights": weights}, separators=(",", ":")
    ).encode()


def _evented(capture: Capture, profile: Profile, folded: Folded[Any], paths: Paths, thread: int) -> Iterator[bytes]:
    """One thread as an evented profile."""
    special = _special(folded)
    start_ns = capture.start_ns
    head = {"type": "evented", "name": _name(profile, thread), "unit": "nanoseconds", "startValue": 0}
    yield json.dumps(head, separators=(",", ":")).encode()[:-1] + b',"events":['
    end_ns = 0
    comma = ""
    timeline = ((span.start_ns, span.end_ns, folded.nodes[span.stack]) for span in spans(capture, profile, thread))
    for at_ns, begins, frame in events(timeline, paths):
        end_ns = max(0, at_ns - start_ns)
        yield f'{comma}{{"type":"{"O" if begins else "C"}","frame":{special.get(frame, frame)},"at":{end_ns}}}'.encode()
        comma = ","
    yield f'],"endValue":{end_ns}}}'.encode()
