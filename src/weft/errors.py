"""Every error that weft raises, in one tree.

    WeftError
    ├── TargetError            the process or core file cannot be read
    │   ├── NoSuchProcessError
    │   ├── NotPythonError
    │   ├── PermissionDeniedError
    │   ├── TargetExitedError
    │   └── CoreFileError
    ├── LayoutError            the interpreter's layout is unknown or not proven
    ├── MemoryReadError        bytes of the target could not be read
    ├── CollectorError         no collector can take samples here
    ├── CaptureError           a capture cannot be read
    │   ├── NotACaptureError
    │   ├── CaptureVersionError
    │   └── ImportedFileError  another tool's profile cannot be read
    └── OutputError            what was asked for cannot be written

The message is one line: what is wrong and, after a semicolon or a full stop, what to do about it. The command line
prints it behind ``weft: `` and exits with 1.
"""

from __future__ import annotations


class WeftError(Exception):
    """Base of all errors that a user can do something about."""


class TargetError(WeftError):
    """The target cannot be read."""


class NoSuchProcessError(TargetError):
    """No process has this PID."""


class NotPythonError(TargetError):
    """The target runs no Python that weft knows."""


class PermissionDeniedError(TargetError):
    """The kernel does not let this user read the target."""


class TargetExitedError(TargetError):
    """The target ended before anything could be had of it."""


class CoreFileError(TargetError):
    """The core file, or a file that it needs, is missing or damaged."""


class LayoutError(WeftError):
    """The layout of the target's interpreter is unknown, or its proof failed."""


class MemoryReadError(WeftError):
    """Bytes of the target could not be read: where, and how many were asked for."""

    def __init__(self, address: int, size: int, reason: str = "not mapped") -> None:
        super().__init__(f"cannot read {size} bytes at {address:#x}: {reason}")
        self.address = address
        self.size = size


class CollectorError(WeftError):
    """A collector cannot take samples here."""

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(f"{problem}; {advice}" if advice else problem)
        self.problem = problem


class CaptureError(WeftError):
    """The capture cannot be read."""


class NotACaptureError(CaptureError):
    """The file is no weft capture, or is damaged."""


class CaptureVersionError(CaptureError):
    """The capture was written by another version of weft."""


class ImportedFileError(CaptureError):
    """Another tool's profile is damaged, or holds what weft does not show."""


class OutputError(WeftError):
    """The output cannot be written."""


def error_named(kind: str, message: str) -> WeftError:
    """Return an error that another process has told of, as one of this process."""
    known = globals().get(kind)
    made = known if isinstance(known, type) and issubclass(known, WeftError) else WeftError
    error: WeftError = made.__new__(made)  # some are made of more than their message
    Exception.__init__(error, message)
    return error
