// Memory as it was told at an earlier instant; what was not told is read as it is now, and counted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "memory/memory.h"

namespace weft {

class PastMemory : public Memory {
   public:
    void begin(Memory& now) { now_ = &now; }

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override {
        const std::span<const std::byte> found = told(address);
        const std::size_t count = std::min(size, found.size());
        std::ranges::copy(found.first(count), static_cast<std::byte*>(to));
        if (count == size) {
            return ReadResult::kOk;
        }
        ++reads_of_now_;
        return now_->read(address + count, static_cast<std::byte*>(to) + count, size - count);
    }

    Memory& now() { return *now_; }
    std::uint64_t reads_of_now() const { return reads_of_now_; }

   protected:
    // What was told from an address on, as far as it is in one piece; empty: nothing was.
    virtual std::span<const std::byte> told(Address address) const = 0;

   private:
    Memory* now_ = nullptr;
    std::uint64_t reads_of_now_ = 0;
};

}  // namespace weft
