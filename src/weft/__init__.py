"""weft: a sampling profiler for Python programs that run native code.

    from weft import Options, record_process
    record_process(pid, Path("app.weft"), Options(rate_hz=999, duration_s=10))

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
    from weft.profile.tables import Profile
    from weft.session import Options, Progress, Result, record_command, record_process

__version__ = "0.1.0"

_HOMES = {
    "Capture": "weft.capture",
    "Collector": "weft.collect.choose",
    "Mode": "weft.collect.sampler",
    "Options": "weft.session",
    "Profile": "weft.profile.tables",
    "Progress": "weft.session",
    "Result": "weft.session",
    "WeftError": "weft.errors",
    "record_command": "weft.session",
    "record_process": "weft.session",
}

__all__ = [
    "Capture",
    "Collector",
    "Mode",
    "Options",
    "Profile",
    "Progress",
    "Result",
    "WeftError",
    "__version__",
    "record_command",
    "record_process",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
