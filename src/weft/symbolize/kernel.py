"""The functions of the kernel: which lies at an address, by /proc/kallsyms, until the machine is booted anew."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from pathlib import Path

from weft.sample import KERNEL, NO_FLAGS, Frame, FrameFlag, FrameKind

_KALLSYMS = Path("/proc/kallsyms")
_MAX_BYTES = 64 << 20
_FUNCTION = re.compile(rb"^([0-9a-f]{16}) [tTwW] (.+)$", re.MULTILINE)
_LARGEST = 1 << 20  # bytes of a function; what lies farther from its begin is none of its code
_END = b"_etext"
# How the processor enters the kernel, and what that calls (arch/x86/entry); how a tracepoint calls weft's program
# (include/trace/bpf_probe.h). What handles an interrupt or a fault stays.
_MACHINERY = re.compile(
    r"entry_(SYSCALL|SYSENTER|INT80)_\w+|do_(syscall_64|int80_\w+)|x(64|32)_sys_call|asm_\w+|ret_from_fork\w*"
    r"|(__)?bpf_trace_\w+|__traceiter_\w+"
)


def kernel_frame(function: str) -> Frame:
    """Return the frame of a function: `name`, or `name [module]`."""
    name, _, module = function.partition(" ")
    flags = FrameFlag.MACHINERY if _MACHINERY.fullmatch(name) else NO_FLAGS
    return Frame(FrameKind.KERNEL, name, module or KERNEL, 0, flags=flags, module=module or KERNEL)


def kernel_functions(addresses: Collection[int]) -> dict[int, str]:
    """Return the function at each address, as kernel_frame() takes it; KERNEL where the kernel does not tell.

    The kernel tells root, and others as kernel.kptr_restrict has it: else all addresses are 0.
    """
    return KernelNames().at(addresses) if addresses else {}


class KernelNames:
    """The names of the kernel's functions, read once: modules that are loaded later have none."""

    def __init__(self) -> None:
        self._text = _read()
        begins, places = array("Q"), array("Q")
        for function in _FUNCTION.finditer(self._text):
            begins.append(int(function[1], 16))
            places.append(function.start(2))
        # Those of modules come last. Of several names for a place the kernel takes the first (kernel/kallsyms.c).
        order = array("I", sorted(range(len(begins)), key=begins.__getitem__))
        self._begins = array("Q", map(begins.__getitem__, order))
        self._places = array("Q", map(places.__getitem__, order))  # of their names in the text

    @property
    def are_told(self) -> bool:
        """Whether the kernel tells them: for those who may not know, all lie at 0."""
        return len(self._begins) > 0 and self._begins[-1] > 0

    def at(self, addresses: Collection[int]) -> dict[int, str]:
        """Return the function at each address, as kernel_functions() does."""
        return {address: self._at(address) for address in addresses}

    def _at(self, address: int) -> str:
        at = bisect_right(self._begins, address) - 1
        if not self.are_told or at < 0 or address - self._begins[at] >= _LARGEST:
            return KERNEL
        place = self._places[bisect_left(self._begins, self._begins[at])]
        name = self._text[place : self._text.find(b"\n", place)]
        return KERNEL if name == _END else name.decode("ascii", "backslashreplace").replace("\t", " ")


def tells_names() -> bool:
    """Return whether the kernel tells us which function lies at which address."""
    return KernelNames().are_told


def _read() -> bytes:
    """Return what the kernel tells, whole lines of it; nothing if it tells nothing."""
    try:
        with _KALLSYMS.open("rb") as file:
            text = file.read(_MAX_BYTES)
    except OSError:
        return b""
    return text[: text.rfind(b"\n") + 1]
