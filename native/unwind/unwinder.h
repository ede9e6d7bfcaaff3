// Walks a native stack, innermost frame first. x86-64.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "memory/memory.h"
#include "python/loss.h"
#include "unwind/table.h"

namespace weft {

// Where modules lie in a process, and their tables.
class CodeMap {
   public:
    struct Place {
        const UnwindTable* table = nullptr;  // null: no module's code
        std::uint64_t address = 0;           // in the module
    };

    // `bias`: what is added to the module's own addresses. A later mapping replaces what it covers of earlier ones.
    void add(Address begin, Address end, Address bias, std::shared_ptr<const UnwindTable> table);

    Place find(Address pc) const;

   private:
    struct Mapping {
        Address end = 0;
        Address bias = 0;
        std::shared_ptr<const UnwindTable> table;
    };
    std::map<Address, Mapping> mappings_;  // by their begin; they do not overlap
};

struct NativeFrame {
    Address pc = 0;
    Address stack_pointer = 0;
    Address cfa = 0;         // the caller's stack pointer; 0: not known, and this is the last frame
    bool is_return = false;  // the pc is a return address: what is called lies before it
};

struct NativeStack {
    std::vector<NativeFrame> frames;  // innermost first
    Loss loss = Loss::kNone;          // why it ends before the outermost
};

class Unwinder {
   public:
    static constexpr std::size_t kMaxFrames = 1 << 16;

    // The stack of a thread that stands still with these registers.
    void unwind(Memory& memory, const CodeMap& code, RegisterSet registers, NativeStack& stack) const;
};

}  // namespace weft
