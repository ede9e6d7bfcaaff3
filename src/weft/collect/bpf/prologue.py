"""Where a probe at the beginning of a function is cheap: at an instruction that the kernel emulates.

Others it has to execute out of line, in single steps, which takes ten times as long (docs/allocations.md). Known here
are those that compilers put first; what is not known ends the search.
"""

from __future__ import annotations

_RAX, _RDX, _RSP, _RSI, _RDI = 0, 2, 4, 6, 7
_MAX_BYTES = 48  # that are looked at
# With a ModRM byte (Intel's manual, volume 2, appendix A): that write no register; that write the one in its `reg`
# field; that write the one in `rm`, where that is a register.
_WRITE_NONE = frozenset({0x84, 0x85, 0x38, 0x39, 0x3A, 0x3B})  # test, cmp
_WRITE_REG = frozenset({0x8B, 0x8D, 0x23, 0x0B, 0x03, 0x2B, 0x33})  # mov, lea, and, or, add, sub, xor
_WRITE_RM = frozenset({0x89, 0x21, 0x09, 0x01, 0x29, 0x31})
_GROUPS = {0x80: 1, 0x81: 4, 0x83: 1, 0xC1: 1, 0xF6: 1, 0xF7: 4}  # and the bytes of their immediate operands
_COMPARE, _TEST, _MULTIPLY = 7, 0, 4  # the `reg` field: which one of its group (of 80, 81, 83; of F6, F7; of F7)


def first_emulated(code: bytes, *, third: bool) -> int:
    """Return the offset of the first instruction of a function that the kernel emulates; 0 if none is found.

    Before it, nothing changes the stack pointer, the first two arguments or (if it is wanted) the third one.
    """
    kept = {_RSP, _RSI, _RDI} | ({_RDX} if third else set())
    at = 0
    while at < min(len(code), _MAX_BYTES):
        if _is_emulated(code[at:]):
            return at
        size = _harmless(code[at:], kept)
        if size == 0:
            return 0
        at += size
    return 0


def _is_emulated(code: bytes) -> bool:
    """Whether it is a push, a jump or a nop as arch/x86/kernel/uprobes.c knows them (*_setup_xol_ops)."""
    first, second = code[0], code[1] if len(code) > 1 else 0
    is_push = first & 0xF8 == 0x50 or (first == 0x41 and second & 0xF8 == 0x50)
    is_jump = first & 0xF0 == 0x70 or first in (0xEB, 0xE9) or (first == 0x0F and second & 0xF0 == 0x80)
    return is_push or is_jump or first == 0x90 or (first == 0x0F and second == 0x1F)


def _harmless(code: bytes, kept: set[int]) -> int:
    """Return the bytes of an instruction that neither writes a register of these nor goes elsewhere; 0: another one."""
    if code.startswith(b"\xf3\x0f\x1e\xfa"):  # endbr64
        return 4
    rex = code[0] if code[0] & 0xF0 == 0x40 else 0
    at = 1 if rex else 0
    if len(code) < at + 8:
        return 0
    opcode, modrm = code[at], code[at + 1]
    mode, reg, rm = modrm >> 6, modrm >> 3 & 7, modrm & 7
    end = at + 2 + _operand_bytes(code[at + 2], mode, rm)
    target = rm | (rex & 1) << 3 if mode == 3 else None
    written: set[int | None] = set()
    if opcode in _WRITE_REG:
        written = {reg | (rex & 4) << 1}
    elif opcode in _WRITE_RM:
        written = {target}
    elif opcode in _GROUPS:
        is_multiply = opcode == 0xF7 and reg == _MULTIPLY
        is_test = opcode in (0xF6, 0xF7) and reg == _TEST
        if opcode in (0xF6, 0xF7) and not (is_multiply or is_test):
            return 0
        is_compare = opcode in (0x80, 0x81, 0x83) and reg == _COMPARE
        written = {_RAX, _RDX} if is_multiply else set() if is_test or is_compare else {target}
        end += 0 if is_multiply else _GROUPS[opcode]
    elif opcode not in _WRITE_NONE:
        return 0
    return 0 if written & kept or None in written else end


def _operand_bytes(sib: int, mode: int, rm: int) -> int:
    """Return the bytes of an operand behind its ModRM byte, of which `sib` is the first."""
    if mode == 3:
        return 0
    has_sib = rm == 4
    is_absolute = mode == 0 and (rm == 5 or (has_sib and sib & 7 == 5))
    return has_sib + (4 if is_absolute or mode == 2 else mode)
