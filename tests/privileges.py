"""Commands that run another one as somebody with fewer rights than root."""

from __future__ import annotations

import sys
from pathlib import Path

# To the kernel's checks a user without capabilities is an ordinary one; and the checkout may lie where only root can
# read it. prctl(2): 28 is PR_SET_SECUREBITS (noroot, locked: no way to get them back), 24 is PR_CAPBSET_DROP.
_ORDINARY = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.chroot(sys.argv[1])
assert libc.prctl(28, 3, 0, 0, 0) == 0
for capability in range(64):
    libc.prctl(24, capability, 0, 0, 0)
os.execvp(sys.argv[2], sys.argv[2:])
"""
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

# A container's filter (seccomp(2), linux/filter.h): one system call fails with EPERM, all others are allowed.
_FILTERED = """
import ctypes, os, struct, sys
refused = int(sys.argv[1])
load = struct.pack("HBBI", 0x20, 0, 0, 0)           # the number of the system call
jump = struct.pack("HBBI", 0x15, 0, 1, refused)
deny = struct.pack("HBBI", 0x06, 0, 0, 0x00050001)  # SECCOMP_RET_ERRNO | EPERM
allow = struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000)
code = ctypes.create_string_buffer(load + jump + deny + allow)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0              # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0        # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
os.execv(sys.argv[2], sys.argv[2:])
"""
PTRACE, PERF_EVENT_OPEN = 101, 298  # x86-64 (arch/x86/entry/syscalls/syscall_64.tbl)


def filtered(system_call: int) -> list[str]:
    """The command that runs another one behind such a filter."""
    return [sys.executable, "-c", _FILTERED, str(system_call)]


def ordinary(root: Path = Path("/")) -> list[str]:
    """The command that runs another one as an ordinary user, in a chroot."""
    return [sys.executable, "-c", _ORDINARY, str(root)]
