"""weft: a sampling profiler for Python programs that run native code.

    with weft.record("app.weft", rate_hz=999) as recording:   # this process; or @weft.record("app.weft")
        work()
    print(recording.results.functions[0])

    weft.open("app.weft").functions.to_pandas()

    weft.record_process(pid, Path("app.weft"), weft.Options(rate_hz=999, duration_s=10))

Names are loaded when they are first used, so that `import weft` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.capture import Capture
    from weft.collect.choose import Collector
    from weft.collect.sampler import Mode
    from weft.errors import WeftError
    from weft.profile.quality import Account
    from weft.profile.tables import Profile
    from weft.recording import Recording
    from weft.recording import Recording as record  # noqa: N813
    from weft.results import FunctionRow, LineRow, Results, StackRow, Table, ThreadRow
    from weft.results import open_results as open
    from weft.session import Options, Progress, Result, record_command, record_process

__version__ = "0.1.0"

_HOMES = {
    "Account": "weft.profile.quality",
    "Capture": "weft.capture",
    "Collector": "weft.collect.choose",
    "FunctionRow": "weft.results",
    "LineRow": "weft.results",
    "Mode": "weft.collect.sampler",
    "Options": "weft.session",
    "Profile": "weft.profile.tables",
    "Progress": "weft.session",
    "Recording": "weft.recording",
    "Result": "weft.session",
    "Results": "weft.results",
    "StackRow": "weft.results",
    "Table": "weft.results",
    "ThreadRow": "weft.results",
    "WeftError": "weft.errors",
    "load_ipython_extension": "weft.notebook:load",
    "open": "weft.results:open_results",
    "record": "weft.recording:Recording",
    "record_command": "weft.session",
    "record_process": "weft.session",
}

__all__ = [
    "Account",
    "Capture",
    "Collector",
    "FunctionRow",
    "LineRow",
    "Mode",
    "Options",
    "Profile",
    "Progress",
    "Recording",
    "Result",
    "Results",
    "StackRow",
    "Table",
    "ThreadRow",
    "WeftError",
    "__version__",
    "open",
    "record",
    "record_command",
    "record_process",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    home, _, inside = _HOMES[name].partition(":")
    return getattr(import_module(home), inside or name)
