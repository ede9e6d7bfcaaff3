"""Files that a target names, opened as an enemy's.

To open a pipe lets its writer go on, to open a device can do anything. So a file is looked at before it is opened, and
no link leads out of the root that its name is meant in.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
from typing import Final

_LOOK: Final = os.O_PATH | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_OPENAT2: Final = 437  # on every architecture; asm-generic/unistd.h
_NO_MAGIC_LINKS, _IN_ROOT = 0x02, 0x10  # RESOLVE_* of linux/openat2.h
_ROOT: Final = re.compile(r"(/proc/\d+/root)(/.*)", re.DOTALL)
_libc = ctypes.CDLL(None, use_errno=True)


class NotAFileError(OSError):
    """What has this name is no regular file."""

    REASON: Final = "is no regular file"

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, self.REASON)


class _OpenHow(ctypes.Structure):
    """struct open_how of linux/openat2.h."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_file(path: str, *, follows_link: bool = True) -> int:
    """Open a regular file for reading; a path under /proc/PID/root stays in there. A descriptor. OSError, ValueError.

    `follows_link`: whether the path may be that of a symbolic link to one.
    """
    flags = _LOOK if follows_link else _LOOK | os.O_NOFOLLOW
    if inside := _ROOT.fullmatch(path):
        root = os.open(inside[1], _LOOK | os.O_DIRECTORY)
        try:
            return _open_seen(_look_within(root, inside[2], flags))
        except OSError as error:
            # Linux before 5.6, and filters of system calls from before that. A link may lead out then, to files alone.
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
        finally:
            os.close(root)
    return _open_seen(os.open(path, flags))


def open_file_within(folder: int, path: str) -> int:
    """Open a regular file beneath a folder, which is taken for the root by all links. OSError, ValueError."""
    return _open_seen(_look_within(folder, path, _LOOK))


def _look_within(folder: int, path: str, flags: int) -> int:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("its name holds a zero byte")
    how = _OpenHow(flags, 0, _IN_ROOT | _NO_MAGIC_LINKS)
    fd = int(_libc.syscall(_OPENAT2, folder, name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return fd


def _open_seen(seen: int) -> int:
    """Open for reading what was only looked at, and let go of that."""
    try:
        if not stat.S_ISREG(os.fstat(seen).st_mode):
            raise NotAFileError
        return os.open(f"/proc/self/fd/{seen}", _READ)
    finally:
        os.close(seen)
