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
    // Begins anew, with the stack of a thread that stands still. `memory` must outlive its use, and so must `known`: as much of
    // the stack as has been read already.
    void begin(Memory& memory, Address stack_pointer, std::span<const std::byte> known = {});

    // The word at an address, which may lie on another stack (signal handlers have their own).
    std::optional<std::uint64_t> word(Address address);

    ReadResult result() const { return result_; }  // of the last word

    // The first `most` bytes of it, or as many as there are.
    std::span<const std::byte> bytes(std::size_t most);

    Address used_up_to() const { return begin_ + used_; }  // behind the last word of it that was asked for

   private:
    static constexpr std::size_t kFirst = 16 << 10;
    static constexpr std::size_t kMost = 64 << 20;
    // Behind what was read. A thread's stack may have code of JIT compilers some megabytes above it, and libraries between.
    static constexpr std::size_t kFar = 128 << 10;
    // What is elsewhere is mostly code without a table, and that of its callers: they are asked for in turns.
    static constexpr std::size_t kWindows = 16;
    static constexpr std::size_t kPage = 4 << 10;

    struct Window {
        Address begin = 0;
        std::size_t size = 0;
        std::array<std::byte, kPage> bytes{};
    };

    bool extend(Address to);
    std::optional<std::uint64_t> word_elsewhere(Address address);
    const Window* window_of(Address address);

    Memory* memory_ = nullptr;
    Address begin_ = 0;
    std::span<const std::byte> known_;  // from there on: what was given, or bytes_
    std::size_t used_ = 0;
    bool ends_ = false;  // nothing is to be had behind what was read
    std::vector<std::byte> bytes_;
    std::vector<Window> windows_;
    std::size_t used_windows_ = 0;  // the first of them
    std::size_t next_window_ = 0;   // to be used, or used again
    ReadResult result_ = ReadResult::kOk;
};

}  // namespace weft
