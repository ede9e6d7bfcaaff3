"""Helper of stops.py, for Python 2.7 and 3: the stack of the calling frame as the interpreter itself tells it."""
import json
import os
import sys


def stack(frame):
    """Frames of the caller and its callers, root first: [function, file, line, end_line, column, end_column].

    The function is the qualified name from 3.11 on. Columns count from 1; the last three are 0 before 3.11. They are
    null in the innermost frame, which goes on to another call in the same line.
    """
    frames = []
    positions = {}  # of (code, instruction): a deep recursion has few of them
    while frame is not None:
        code = frame.f_code
        key = (code, frame.f_lasti)
        if key not in positions:
            positions[key] = position(code, frame.f_lasti)
        name = getattr(code, "co_qualname", code.co_name)
        frames.append([text(name), text(code.co_filename), frame.f_lineno] + positions[key])
        frame = frame.f_back
    frames[0][3:] = [None, None, None]
    frames.reverse()
    return frames


def position(code, lasti):
    if not hasattr(code, "co_positions"):
        return [0, 0, 0]
    _, end_line, column, end_column = list(code.co_positions())[lasti // 2]
    return [end_line or 0, 0 if column is None else column + 1, 0 if end_column is None else end_column + 1]


def text(name):
    return name if isinstance(name, type(u"")) else name.decode("utf-8")


def native_thread_id():
    """The TID, which threading tells from 3.8 on only."""
    import threading

    if hasattr(threading, "get_native_id"):
        return threading.get_native_id()
    import ctypes
    import platform

    return ctypes.CDLL(None).syscall({"x86_64": 186, "aarch64": 178}[platform.machine()])


def record(route, pipe, tid, interpreter=0):
    """Write the caller's stack to a pipe as one line of JSON. The caller blocks in the same line, so it stays true."""
    told = {"route": route, "tid": tid, "interpreter": interpreter, "frames": stack(sys._getframe(1))}
    data = json.dumps(told).encode("ascii") + b"\n"
    while data:
        data = data[os.write(pipe, data):]
