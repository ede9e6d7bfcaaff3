// A copy of a thread's stack, from its stack pointer up as far as it is asked for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memory/memory.h"

namespace weft {

class StackCopy {
   public:
    // Begins anew, with the stack of a thread that stands still; nothing is read yet. `memory` must outlive its use.
    void begin(Memory& memory, Address stack_pointer);

    // The word at an address, which may lie on another stack (signal handlers have their own).
    std::optional<std::uint64_t> word(Address address);

    ReadResult result() const { return result_; }  // of the last word

    // The first `most` bytes of it, or as many as there are.
    std::span<const std::byte> bytes(std::size_t most);

   private:
    static constexpr std::size_t kFirst = 16 << 10;
    static constexpr std::size_t kMost = 64 << 20;
    static constexpr std::size_t kWindow = 4 << 10;

    bool extend(Address to);
    std::optional<std::uint64_t> word_elsewhere(Address address);

    Memory* memory_ = nullptr;
    Address begin_ = 0;
    std::size_t size_ = 0;
    bool ends_ = false;  // nothing is to be had behind what was read
    std::vector<std::byte> bytes_;
    std::array<std::byte, kWindow> window_{};
    Address window_begin_ = 0;
    std::size_t window_size_ = 0;
    ReadResult result_ = ReadResult::kOk;
};

}  // namespace weft
