"""Chrome's trace event format, for Perfetto and chrome://tracing: each stay in a function is one complete event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from weft.capture import Capture
from weft.export.spans import LONGEST, events, spans
from weft.profile.names import ELIDED_FRAMES, NO_FRAME, escape, process_name, thread_name
from weft.profile.quality import Account
from weft.profile.tables import EMPTY, Profile, View
from weft.profile.transform import ELIDED, Folded, Paths, by_function, fold


def render(capture: Capture, view: View) -> Iterator[bytes]:
    """Functions over time, in microseconds since the recording began; `line` is where a function begins."""
    profile = Profile.from_capture(capture, view)
    folded = fold(profile, by_function)
    other = {**profile.meta, "account": Account.from_capture(capture).as_dict()}
    yield b'{"displayTimeUnit":"ms","otherData":' + _json(other) + b',"traceEvents":['
    yield b",\n".join(_json(event) for event in _names(profile))
    labels = _labels(folded)
    paths = Paths(folded.stacks, LONGEST)
    for thread in dict.fromkeys(total.thread for total in profile.totals):
        yield from _thread(capture, profile, folded, labels, paths, thread)
    yield b"]}\n"


def _names(profile: Profile) -> Iterator[dict[str, Any]]:
    for process in profile.processes.values():
        name = {"name": process_name(process)}
        yield {"ph": "M", "name": "process_name", "pid": process.pid, "tid": 0, "args": name}
    for thread in profile.threads.values():
        pid = profile.processes[thread.process].pid if thread.process in profile.processes else 0
        name = {"name": thread_name(thread)}
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread.tid, "args": name}


def _labels(folded: Folded[tuple[str, str, int]]) -> dict[int, bytes]:
    """What each frame's events have in common."""
    labels = {
        index: _json({"name": escape(name), "args": {"file": escape(file), "line": line}})[1:-1]
        for index, (name, file, line) in enumerate(folded.keys)
    }
    for index, name in ((ELIDED, ELIDED_FRAMES), (EMPTY, NO_FRAME)):
        labels[index] = _json({"name": name})[1:-1]
    return labels


def _thread(
    capture: Capture, profile: Profile, folded: Folded[Any], labels: dict[int, bytes], paths: Paths, thread: int
) -> Iterator[bytes]:
    row = profile.threads[thread]
    place = b'"ph":"X","pid":%d,"tid":%d' % (profile.processes[row.process].pid, row.tid)
    begun: list[int] = []  # when the frames began that have not ended
    timeline = ((span.start_ns, span.end_ns, folded.nodes[span.stack]) for span in spans(capture, profile, thread))
    for at_ns, begins, frame in events(timeline, paths):
        if begins:
            begun.append(at_ns)
            continue
        start_ns = begun.pop()
        times = b'"ts":%.3f,"dur":%.3f' % ((start_ns - capture.start_ns) / 1000, (at_ns - start_ns) / 1000)
        yield b",\n{" + place + b"," + times + b"," + labels[frame] + b"}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
