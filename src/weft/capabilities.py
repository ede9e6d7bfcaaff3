"""What a recording in the kernel may do: less than root."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

# By their numbers (include/uapi/linux/capability.h), and what for.
_KEPT = {
    1: "DAC_OVERRIDE, to write the capture where root may",
    2: "DAC_READ_SEARCH, to read the libraries of other users",
    19: "SYS_PTRACE, to read the memory and the maps of other users' processes",
    23: "SYS_NICE, for the sampler's priority",
    24: "SYS_RESOURCE, for the limit of open files",
    34: "SYSLOG, for the kernel's names",
    38: "PERFMON, for clocks of CPUs, and for what BPF programs read",
    39: "BPF, for the programs and their maps",
    40: "CHECKPOINT_RESTORE, to read files that have been deleted or replaced (/proc/PID/map_files)",
}
# For the kernel's stacks of threads that are blocked as a recording begins (/proc/PID/stack), where those of others the
# kernel's program tells; and for probes that are perf events.
SYS_ADMIN = 21
_CAPSET = 126  # its number on x86-64
_VERSION_3 = 0x20080522
_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS


def drop_capabilities(*besides: int) -> None:
    """Give up, for good, what this thread does not need for a recording by collector bpf, but for those `besides`.

    Threads that it has begun before keep theirs. Of what was not there nothing is gained. An ordinary user has nothing
    to give up. OSError.
    """
    if os.geteuid() != 0:
        return
    told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    left = int(told["CapPrm"], 16) & sum(1 << number for number in (*_KEPT, *besides))
    low, high = left & 0xFFFFFFFF, left >> 32
    header = ctypes.create_string_buffer(struct.pack("<Ii", _VERSION_3, 0))
    # Effective, permitted, inheritable; of the first 32 and of the others.
    data = ctypes.create_string_buffer(struct.pack("<6I", low, low, 0, high, high, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    # Else a program that root starts (weft reads debug information in one) has them all again (capabilities(7)).
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "prctl(2)")
    if libc.syscall(_CAPSET, header, data) < 0:
        raise OSError(ctypes.get_errno(), "capset(2)")
