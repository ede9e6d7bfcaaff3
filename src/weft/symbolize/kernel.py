"""The functions of the kernel: which lies at an address, by /proc/kallsyms, until the machine is booted anew."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from zlib import crc32

from weft import cache
from weft.sample import KERNEL, NO_FLAGS, Frame, FrameFlag, FrameKind

_KALLSYMS = Path("/proc/kallsyms")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_KIND, _KEPT = "kernel", "functions"
_MAX_BYTES = 64 << 20
_SYMBOL = re.compile(rb"^([0-9a-f]{16}) (\w) (.+)$", re.MULTILINE)
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
    """The names of the kernel's functions, read once: modules that are loaded later have none.

    The kernel's own are in the order of their addresses, since it searches them so itself (kernel/kallsyms.c,
    get_symbol_pos). Those of modules come behind them, each module's in any order, and are sorted if they are wanted.

    The kernel takes 30 ms to tell them. Its own do not change until the machine is booted anew, and are kept on disk.
    """

    def at(self, addresses: Collection[int]) -> dict[int, str]:
        """Return the function at each address, as kernel_functions() does."""
        return {address: self._at(address) for address in addresses}

    def _at(self, address: int) -> str:
        name = (self._in_kernel(address) or self._in_module(address)) if _tells_places(self._own) else b""
        return name.decode("ascii", "backslashreplace").replace("\t", " ") if name not in (b"", _END) else KERNEL

    def _in_kernel(self, address: int) -> bytes:
        """Return the last of its own functions up to an address; nothing: none is near."""
        text, found = self._own, (0, b"")
        line = bisect_right(range(len(text)), address, key=lambda place: _address(text, _line_begin(text, place)))
        while line > 0:  # upwards; of several names for a place the kernel takes the first
            line = _line_begin(text, line - 1)
            symbol = _SYMBOL.match(text, line)
            begin = int(symbol[1], 16) if symbol else 0
            if address - begin >= _LARGEST or begin < found[0]:
                break
            if symbol and symbol[2] in b"tTwW":
                found = (begin, symbol[3])
        return found[1]

    def _in_module(self, address: int) -> bytes:
        """The same of the functions of modules."""
        at = bisect_right(self._module_functions, address, key=itemgetter(0))
        begin = self._module_functions[at - 1][0] if at > 0 else -_LARGEST
        if address - begin >= _LARGEST:
            return b""
        return self._module_functions[bisect_left(self._module_functions, begin, key=itemgetter(0))][1]

    @cached_property
    def _module_functions(self) -> list[tuple[int, bytes]]:
        """Where they begin, and their names."""
        found = ((int(each[1], 16), each[3]) for each in _SYMBOL.finditer(self._told[1]) if each[2] in b"tTwW")
        return sorted(found, key=itemgetter(0))

    @cached_property
    def _own(self) -> bytes:
        """What the kernel tells of its own functions, a line each."""
        kept = cache.kept(_KIND, _KEPT)
        boot = _boot()
        if kept and boot:
            mark, _, text = kept.partition(b"\n")
            if mark == _mark(boot, text):
                return text
        own, _ = self._told
        if boot and _tells_places(own):
            cache.keep(_KIND, _KEPT, _mark(boot, own) + b"\n" + own)
        return own

    @cached_property
    def _told(self) -> tuple[bytes, bytes]:
        """What the kernel tells now of its own functions, and of those of its modules."""
        text = _read()
        of_module = text.find(b"\t[")
        end = text.rfind(b"\n", 0, of_module) + 1 if of_module >= 0 else len(text)
        return text[:end], text[end:]


def _boot() -> bytes:
    """Return what no other boot of any machine has; nothing: it is not told (random(4))."""
    try:
        return _BOOT.read_bytes().strip()
    except OSError:
        return b""


def _mark(boot: bytes, text: bytes) -> bytes:
    """Return what tells that a text was kept whole, since the machine was booted."""
    return b"%s %08x" % (boot, crc32(text))


def _tells_places(text: bytes) -> bool:
    """Return whether it says where functions are: for those who may not know, all lie at 0."""
    return _address(text, _line_begin(text, max(0, len(text) - 1))) > 0


def _line_begin(text: bytes, place: int) -> int:
    """Return where the line begins that a byte of a text lies in."""
    return text.rfind(b"\n", 0, place) + 1


def _address(text: bytes, line: int) -> int:
    """Return what the line that begins there tells of; 0: it tells of nothing."""
    symbol = _SYMBOL.match(text, line)
    return int(symbol[1], 16) if symbol else 0


def tells_names() -> bool:
    """Return whether the kernel tells us now which function lies at which address, whatever is kept."""
    return _tells_places(_read())


def _read() -> bytes:
    """Return what the kernel tells, whole lines of it; nothing if it tells nothing."""
    try:
        with _KALLSYMS.open("rb") as file:
            text = file.read(_MAX_BYTES)
    except OSError:
        return b""
    return text[: text.rfind(b"\n") + 1]
