"""Which processes of the machine are recorded (weft record -a)."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import NamedTuple

from weft import _native
from weft.errors import CollectorError

_MOUNTS = Path("/proc/self/mounts")


class Filter(NamedTuple):
    """What a process must be, in all that is given.

    cgroup: it is in this one, or below it: a path as /proc/PID/cgroup has it, or its folder below /sys/fs/cgroup.
    user: it runs as this user, a name or a number. comm: its name, as `ps` tells it.
    """

    cgroup: str | None = None
    user: str | None = None
    comm: str | None = None

    def native(self) -> _native.ProcessFilter:
        """Return it as the sampler wants it. CollectorError: there is no such cgroup or user."""
        return _native.ProcessFilter(
            cgroup=_path(self.cgroup) if self.cgroup else "",
            user=_number(self.user) if self.user else None,
            name=self.comm[:15] if self.comm else "",  # TASK_COMM_LEN
        )


def _path(cgroup: str) -> str:
    """Return the path from the root of its hierarchy, as /proc/PID/cgroup has it."""
    told = Path(os.path.normpath(cgroup))
    roots = [Path(mount.split()[1]) for mount in _MOUNTS.read_text().splitlines() if " cgroup" in mount]
    roots.sort(key=lambda root: -len(root.parts))
    within = next(
        (told.relative_to(root) for root in roots if told.is_relative_to(root)), told.relative_to(told.anchor)
    )
    if not any((root / within).is_dir() for root in roots):
        raise CollectorError(f"there is no cgroup {cgroup!r}; /proc/PID/cgroup tells that of a process")
    return f"/{within}" if within.parts else "/"


def _number(user: str) -> int:
    try:
        return int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise CollectorError(f"there is no user {user!r}") from None
