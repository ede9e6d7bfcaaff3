"""The functions of the kernel: which lies at an address, by /proc/kallsyms, until the machine is booted anew."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from operator import itemgetter
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
        self._functions = _read()
        self._begins = [begin for begin, _ in self._functions]

    def at(self, addresses: Collection[int]) -> dict[int, str]:
        """Return the function at each address, as kernel_functions() does."""
        return {address: _at(address, self._begins, self._functions) for address in addresses}


def tells_names() -> bool:
    """Return whether the kernel tells us which function lies at which address."""
    return bool(_read())


def _at(address: int, begins: list[bytes], functions: list[tuple[bytes, bytes]]) -> str:
    at = bisect_right(begins, b"%016x" % address) - 1
    if at < 0 or address - int(begins[at], 16) >= _LARGEST:
        return KERNEL
    # Of several names for a place the kernel itself takes the first (kernel/kallsyms.c).
    _, name = functions[bisect_left(begins, begins[at])]
    return KERNEL if name == _END else name.decode("ascii", "backslashreplace").replace("\t", " ")


def _read() -> list[tuple[bytes, bytes]]:
    """Return where functions begin, in hexadecimal and in order, and their names; none if the kernel hides them."""
    try:
        with _KALLSYMS.open("rb") as file:
            functions: list[tuple[bytes, bytes]] = _FUNCTION.findall(file.read(_MAX_BYTES))
    except OSError:
        return []
    functions.sort(key=itemgetter(0))
    return functions if functions and int(functions[-1][0], 16) else []
