"""A dump as text, and as data for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.dump import Dump, DumpedFrame, DumpedThread
from weft.profile.names import NO_FRAME, escape, frame_label, short_file
from weft.sample import HIDDEN, Frame, FrameFlag, FrameKind, State

_INDENT = "    "
_SEAMS = {FrameFlag.PROVEN: "proven", FrameFlag.COUNTED: "counted", FrameFlag.OPEN: "open"}


def render(dump: Dump, width: int | None = None, *, all_frames: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the lines of the text, each with what it is: "title", "thread", "frame", "native", "local", "note" or "".

    `width`: columns that a frame's line should fit in; its file is shortened if that helps. None: full paths.
    `all_frames`: the interpreter's machinery, too.
    """
    command = f": {escape(dump.command)}" if dump.command else ""
    yield "title", f"{escape(dump.target)}{command}"
    yield "", str(dump.runtime)
    for warning in dump.warnings:
        yield "note", f"warning: {escape(warning)}"
    for thread in dump.threads:
        yield "", ""
        yield "thread", _thread_line(thread)
        yield from _stack(thread, width, all_frames=all_frames)


def _thread_line(thread: DumpedThread) -> str:
    name = thread.python_name or thread.name
    parts = [f"Thread {thread.tid}"]
    if thread.inner_tid != thread.tid:
        parts.append(f"({thread.inner_tid} in its PID namespace)")
    if name:
        parts.append(f'"{escape(name)}"')
    details = [escape(thread.name)] if thread.name and thread.name != name else []
    details += [f"{thread.pthread:#x}"] if thread.pthread else []
    if details:
        parts.append(f"({', '.join(details)})")
    return f"{' '.join(parts)}: {', '.join(_states(thread))}"


def _states(thread: DumpedThread) -> Iterator[str]:
    """Yield what is to be said of the state of a thread."""
    if thread.stopped:
        yield "stopped"
    elif thread.state is State.RUNNING:
        yield "running"
    elif thread.state is State.GIL:
        yield "waiting for the GIL"
    else:
        yield f"blocked in {thread.syscall}" if thread.syscall else "blocked"
    if thread.holds_gil:
        yield "holds the GIL"
    if not thread.has_python:
        yield "no Python"
    if not thread.proven:
        yield "not proven"


def _stack(thread: DumpedThread, width: int | None, *, all_frames: bool) -> Iterator[tuple[str, str]]:
    several = any(frame.interpreter for frame in thread.frames)
    interpreter: int | None = None
    shown = [d for d in thread.frames if all_frames or not d.frame.flags & HIDDEN]
    for dumped in shown:
        python = dumped.frame.kind is FrameKind.PYTHON
        if several and python and dumped.interpreter != interpreter:
            interpreter = dumped.interpreter
            yield "note", f"{_INDENT}in interpreter {interpreter}:"
        if dumped.frame.kind is FrameKind.MARKER:
            yield "note", _INDENT + dumped.frame.function
            continue
        yield (
            "frame" if python else "native",
            _INDENT + _label(dumped.frame, None if width is None else width - len(_INDENT)),
        )
        for name, value in (dumped.locals or {}).items():
            yield "local", f"{_INDENT * 2}{escape(name)} = {escape(value)}"
    if thread.loss:
        yield "note", f"{_INDENT}[truncated: {thread.loss}]"
    elif thread.has_python and not any(dumped.frame.kind is FrameKind.PYTHON for dumped in thread.frames):
        yield "note", _INDENT + NO_FRAME


def _label(frame: Frame, width: int | None) -> str:
    if not frame.file or frame.kind is FrameKind.KERNEL:
        return frame_label(frame)
    place = f":{frame.line}" if frame.line > 0 else ""
    whole = f"{escape(frame.function)} ({escape(frame.file)}{place})"
    if width is None or len(whole) <= width:
        return whole
    return f"{escape(frame.function)} ({escape(short_file(frame.file))}{place})"


def as_dict(dump: Dump) -> dict[str, Any]:
    """Return the dump as JSON can hold it. docs/dump.md tells what each key means."""
    runtime = dump.runtime
    return {
        "target": dump.target,
        "pid": dump.pid,
        "command": dump.command,
        "runtime": {
            "version": str(runtime.version),
            "free_threaded": bool(runtime.layout.free_threaded),
            "layout": runtime.layout_source,
            "module": runtime.module,
        },
        "threads": [_thread_dict(thread) for thread in dump.threads],
        "warnings": dump.warnings,
    }


def _thread_dict(thread: DumpedThread) -> dict[str, Any]:
    return {
        "tid": thread.tid,
        "namespace_tid": thread.inner_tid,
        "pthread": thread.pthread,
        "name": thread.python_name or thread.name,
        "kernel_name": thread.name,
        "state": thread.state.name.lower(),
        "stopped": thread.stopped,
        "syscall": thread.syscall,
        "holds_gil": thread.holds_gil,
        "python": thread.has_python,
        "frames": [_frame_dict(frame) for frame in thread.frames],
        "loss": thread.loss,
        "native_loss": thread.native_loss,
        "proven": thread.proven,
    }


def _frame_dict(dumped: DumpedFrame) -> dict[str, Any]:
    frame = dumped.frame
    found: dict[str, Any] = {
        "kind": frame.kind.name.lower(),
        "function": frame.function,
        "file": frame.file,
        "line": frame.line,
        "first_line": frame.first_line,
        "end_line": frame.end_line,
        "column": frame.column,
        "end_column": frame.end_column,
        "incomplete": FrameFlag.INCOMPLETE in frame.flags,
        "interpreter": dumped.interpreter,
    }
    if dumped.address is not None or frame.kind is FrameKind.KERNEL:
        found |= {"module": frame.module, "address": dumped.address, "machinery": FrameFlag.MACHINERY in frame.flags}
        found["by_frame_pointer"] = FrameFlag.FRAME_POINTER in frame.flags
        found["seam"] = next((_SEAMS[flag] for flag in _SEAMS if flag in frame.flags), None)
    if dumped.locals is not None:
        found["locals"] = dumped.locals
    return found
