// Rules for code without unwind information. x86-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "unwind/rule.h"

namespace weft {

inline constexpr std::size_t kCodeAhead = 64;  // bytes that rules are made from; the longest call takes 7

// What the code from an instruction on tells: where it goes straight to a return, the stack is adjusted in steps that are all
// known. So it is behind the call of CPython's perf trampoline (Python/asm_trampoline.S), and in any epilogue.
std::optional<UnwindRule> rule_of_code(std::span<const std::byte> code);

// The rules that hold from the beginning of a function, as far as it saves registers and makes room on the stack: each with the
// offset from which on it holds, the last one until it returns. That nothing changes the stack after that is not known.
struct PrologueRow {
    std::uint64_t offset = 0;
    UnwindRule rule;
};
std::vector<PrologueRow> rules_of_prologue(std::span<const std::byte> code);

// That of a function that keeps a frame pointer: at an instruction that it may be interrupted at, or (`is_return`) behind a call.
// That it does keep one is not known.
UnwindRule rule_by_frame_pointer(std::span<const std::byte> code, bool is_return);

// Whether the bytes before a return address end in a call.
bool ends_in_call(std::span<const std::byte> code);

}  // namespace weft
