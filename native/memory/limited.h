// A limit on what one look at a target may read, so that hostile memory cannot hold the sampler, and the thread that it
// has stopped, for long: structs can be made that name the same megabytes again and again.
#pragma once

#include <cstdint>

#include "memory/memory.h"

namespace weft {

class LimitedMemory final : public Memory {
   public:
    // The deepest stack that weft walks has a million frames, of about 100 bytes each.
    static constexpr std::uint64_t kMaxReads = 4 << 20;
    static constexpr std::uint64_t kMaxBytes = 256 << 20;

    LimitedMemory() = default;

    // Begins a look, which reads through `memory`.
    void begin(Memory& memory) {
        memory_ = &memory;
        reads_ = 0;
        bytes_ = 0;
    }

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override {
        if (reads_ == kMaxReads || size > kMaxBytes - bytes_) {
            return ReadResult::kTooMuch;
        }
        ++reads_;
        bytes_ += size;
        return memory_->read(address, to, size);
    }

   private:
    Memory* memory_ = nullptr;
    std::uint64_t reads_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace weft
