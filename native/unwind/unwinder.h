// Walks a native stack, innermost frame first. x86-64.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "memory/memory.h"
#include "python/loss.h"
#include "unwind/code_map.h"
#include "unwind/rule.h"
#include "unwind/stack_copy.h"

namespace weft {

inline constexpr std::size_t kMaxNativeFrames = 1 << 16;

struct NativeFrame {
    Address pc = 0;
    Address stack_pointer = 0;
    Address cfa = 0;                // the caller's stack pointer; 0: not known, and this is the last frame
    bool is_return = false;         // the pc is a return address: what is called lies before it
    bool by_frame_pointer = false;  // nothing tells how it was called: its caller was found by what is on its stack
    CodeMap::Place place;           // of lookup()
    std::array<std::uint64_t, kPreserved.size()> preserved{};  // registers while it runs; 0 where they are not known

    // Whose code it is. A call can be a function's last instruction: its return address is another function's then.
    Address lookup() const { return is_return ? pc - 1 : pc; }
    bool holds(Address address) const { return address >= stack_pointer && address < cfa; }
};

struct NativeStack {
    std::vector<NativeFrame> frames;  // innermost first
    Loss loss = Loss::kNone;          // why it ends before the outermost
};

// The stack of a thread that stands still with these registers; `words` begins at its stack pointer.
void unwind(StackCopy& words, CodeMap& code, RegisterSet registers, NativeStack& stack);

// Goes on behind a gap: with the caller of a frame of which its CFA is known, and `place`, somewhere in the body of its
// function. False, and nothing is changed, if that leads nowhere.
bool unwind_caller(StackCopy& words, CodeMap& code, Address cfa, const CodeMap::Place& place, NativeStack& stack);

}  // namespace weft
