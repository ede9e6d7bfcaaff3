// A stack that met code which had no unwind table yet: a library that is being loaded. Its bytes are kept until there is one.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "memory/memory.h"
#include "python/frames.h"
#include "sampler/stacks.h"
#include "unwind/code_map.h"
#include "unwind/rule.h"

namespace weft {

struct LateStack {
    static constexpr std::size_t kMostBytes = 128 << 10;        // of its stack
    static constexpr std::size_t kMostInAll = 32 << 20;         // of all that are kept
    static constexpr std::uint64_t kPatience = 10'000'000'000;  // ns

    std::uint32_t stack = 0;     // its number; so far it is told as far as it could be unwound
    std::uint32_t root = 0;      // what it stands on
    std::uint64_t until_ns = 0;  // when it is given up
    Address lacks = 0;           // where its code was not known
    PythonStack python;
    RegisterSet registers;
    std::vector<std::byte> bytes;  // from the stack pointer on
    std::vector<FrameKey> kernel;

    // Whether there may be more of its stack than what was kept.
    [[nodiscard]] bool is_cut() const { return bytes.size() == kMostBytes; }

    // In bytes, about.
    [[nodiscard]] std::size_t size() const {
        return sizeof *this + bytes.size() + python.frames.size() * (sizeof(PythonFrame) + sizeof(Address)) +
               python.segments.size() * sizeof(Segment);
    }
};

// The memory that a late stack is unwound in: what was on the stack then. Code is read in `process`, if there is one; it does
// not change.
class LateMemory final : public Memory {
   public:
    LateMemory(const LateStack& late, CodeMap& code, Memory* process) : late_(late), code_(code), process_(process) {}

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override {
        const Address at = address - late_.registers.get(Register::kRsp);
        if (at < late_.bytes.size() && size <= late_.bytes.size() - at) {
            std::memcpy(to, late_.bytes.data() + at, size);
            return ReadResult::kOk;
        }
        const bool readable = process_ != nullptr && code_.find(address).module != 0;
        return readable ? process_->read(address, to, size) : ReadResult::kUnmapped;
    }

   private:
    const LateStack& late_;
    CodeMap& code_;
    Memory* process_;
};

}  // namespace weft
