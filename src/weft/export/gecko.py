"""The Firefox Profiler's processed format, version 47, which every later one of it reads.

https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from weft.capture import Capture, Thread
from weft.export.spans import Span, spans
from weft.profile.names import NO_FRAME, escape, process_name, recording_name
from weft.profile.quality import Account
from weft.profile.tables import Profile, View
from weft.sample import Frame, FrameKind, State

PROCESSED_VERSION: Final = 47
GECKO_VERSION: Final = 27

# Categories: the profiler needs a grey one; a stack that waits has its innermost frame in that of what it waits for.
CATEGORIES: Final = (
    ("Other", "grey"),
    ("Python", "yellow"),
    ("Native", "green"),
    ("Cython", "lightblue"),
    ("Kernel", "red"),
    ("Waiting for a CPU", "magenta"),
    ("Waiting for the GIL", "orange"),
    ("Blocked", "blue"),
)
NUMBERS: Final = {name: number for number, (name, _) in enumerate(CATEGORIES)}
CATEGORY_OF_KIND: Final = {
    FrameKind.PYTHON: NUMBERS["Python"],
    FrameKind.NATIVE: NUMBERS["Native"],
    FrameKind.CYTHON: NUMBERS["Cython"],
    FrameKind.KERNEL: NUMBERS["Kernel"],
    FrameKind.MARKER: NUMBERS["Other"],
}
CATEGORY_OF_STATE: Final = dict.fromkeys(State, NUMBERS["Blocked"]) | {
    State.RUNNABLE: NUMBERS["Waiting for a CPU"],
    State.GIL: NUMBERS["Waiting for the GIL"],
}

NO_FRAME_SHOWN: Final = Frame(FrameKind.PYTHON, NO_FRAME, "", 0)


def render(capture: Capture, view: View) -> Iterator[bytes]:
    """Stacks over time, in ms since the recording began; a sample weighs the time for which its stack stood."""
    profile = Profile.from_capture(capture, view)
    threads = [
        _thread(capture, profile, profile.threads[thread])
        for thread in dict.fromkeys(total.thread for total in profile.totals)
    ]
    document = {"meta": _meta(capture, profile), "libs": [], "pages": [], "threads": threads}
    yield gzip.compress(json.dumps(document, separators=(",", ":")).encode(), compresslevel=6, mtime=0)


def _meta(capture: Capture, profile: Profile) -> dict[str, Any]:
    meta = profile.meta
    return {
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": PROCESSED_VERSION,
        "interval": 1000 / profile.rate_hz,
        "startTime": profile.start_unix_ns / 1_000_000,
        "processType": 0,
        "product": recording_name(profile.processes.values()),
        "importedFrom": f"weft {meta.get('version', '')}".strip(),
        "stackwalk": 0,
        "symbolicated": True,
        "categories": [{"name": name, "color": color, "subcategories": ["Other"]} for name, color in CATEGORIES],
        "markerSchema": [],
        "extra": [
            {
                "label": "The honest account",
                "entries": [
                    {"label": subject, "format": "string", "value": text}
                    for subject, text in Account.from_capture(capture).rows()
                ],
            }
        ],
    }


def _thread(capture: Capture, profile: Profile, thread: Thread) -> dict[str, Any]:
    tables = _Tables(profile)
    process = profile.processes[thread.process]
    ends_ns = process.end_ns if thread.end_ns is None else thread.end_ns
    samples = tables.samples(spans(capture, profile, thread.id), capture.start_ns)
    return {
        "processType": "default",
        "processName": process_name(process),
        "processStartupTime": (process.start_ns - capture.start_ns) / 1e6,
        "processShutdownTime": None if process.end_ns is None else (process.end_ns - capture.start_ns) / 1e6,
        "registerTime": (thread.start_ns - capture.start_ns) / 1e6,
        "unregisterTime": None if ends_ns is None else (ends_ns - capture.start_ns) / 1e6,
        "pausedRanges": [],
        "name": escape(thread.name),
        "isMainThread": thread.tid == process.pid,
        "pid": str(process.pid),
        "tid": thread.tid,
        "samples": samples,
        "markers": _columns(("data", "name", "startTime", "endTime", "phase", "category"), ()),
        **tables.finished(),
    }


class _Tables:
    """The tables of one thread: only what its own stacks need, each row once."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._strings: dict[str, int] = {}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._frames: dict[tuple[int, int | None, int], int] = {}  # (function, line, category)
        self._stacks: dict[tuple[int | None, int, int], int] = {}  # (prefix, frame, category)
        self._rows: dict[int, int | None] = {0: None}  # node -> row, of callers

    def samples(self, timeline: Iterable[Span], start_ns: int) -> dict[str, Any]:
        """One sample a span; after a span that no other follows directly, one without a stack."""
        rows: list[tuple[int | None, float, float]] = []
        end_ns = None
        for span in timeline:
            if end_ns is not None and end_ns != span.start_ns:
                rows.append((None, (end_ns - start_ns) / 1e6, 0))
            end_ns = span.end_ns
            rows.append((self._stack(span), (span.start_ns - start_ns) / 1e6, (end_ns - span.start_ns) / 1e6))
        if end_ns is not None:
            rows.append((None, (end_ns - start_ns) / 1e6, 0))
        return {**_columns(("stack", "time", "weight"), rows), "weightType": "tracing-ms"}

    def finished(self) -> dict[str, Any]:
        """The tables, for the thread's object."""
        stacks = ((frame, prefix, category, 0) for prefix, frame, category in self._stacks)
        frames = (
            (-1, 0, category, 0, function, None, None, None, line, None) for function, line, category in self._frames
        )
        functions = (
            (self._string(escape(name)), False, False, -1, self._string(escape(file)), line or None, None)
            for name, file, line in self._functions
        )
        return {
            "stackTable": _columns(("frame", "prefix", "category", "subcategory"), stacks),
            "frameTable": _columns(
                (
                    "address",
                    "inlineDepth",
                    "category",
                    "subcategory",
                    "func",
                    "nativeSymbol",
                    "innerWindowID",
                    "implementation",
                    "line",
                    "column",
                ),
                frames,
            ),
            "funcTable": _columns(
                ("name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber", "columnNumber"), functions
            ),
            "resourceTable": _columns(("lib", "name", "host", "type"), ()),
            "nativeSymbols": _columns(("libIndex", "address", "name", "functionSize"), ()),
            "stringArray": list(self._strings),
        }

    def _stack(self, span: Span) -> int:
        """The row of a stack, whose innermost frame has the category of the state."""
        stacks = self._profile.stacks
        if span.stack == 0:
            return self._row(None, NO_FRAME_SHOWN, span.state)
        callers = []
        node = stacks.parent[span.stack]
        while node not in self._rows:
            callers.append(node)
            node = stacks.parent[node]
        for caller in reversed(callers):
            self._rows[caller] = self._row(self._rows[node], self._profile.frames[stacks.frame[caller]], State.RUNNING)
            node = caller
        return self._row(self._rows[node], self._profile.frames[stacks.frame[span.stack]], span.state)

    def _row(self, prefix: int | None, frame: Frame, state: State) -> int:
        category = CATEGORY_OF_KIND[frame.kind] if state is State.RUNNING else CATEGORY_OF_STATE[state]
        key = prefix, self._frame(frame), category
        return self._stacks.setdefault(key, len(self._stacks))

    def _frame(self, frame: Frame) -> int:
        key = frame.function, frame.file, frame.first_line
        function = self._functions.setdefault(key, len(self._functions))
        row = function, frame.line or None, CATEGORY_OF_KIND[frame.kind]
        return self._frames.setdefault(row, len(self._frames))

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))


def _columns(names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    """Rows as the profiler's tables: a list a column, and the length."""
    table = list(rows)
    return {**{name: [row[i] for row in table] for i, name in enumerate(names)}, "length": len(table)}
