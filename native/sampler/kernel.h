// Where a thread is in the kernel: by the tick that fell there, or, of a blocked thread, by /proc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/memory.h"

namespace weft {

// More are not asked for: of a blocked thread the kernel shows no more either (fs/proc/base.c, MAX_STACK_TRACE_DEPTH).
inline constexpr std::size_t kMaxKernelFrames = 64;

// The kernel's frames at a tick, innermost first; of a call, the address of its last byte. None: it fell in user mode.
struct KernelChain {
    std::array<Address, kMaxKernelFrames> addresses;
    std::size_t count = 0;
};

// Functions of the kernel by number, since /proc tells them by name.
class KernelNames {
   public:
    std::uint32_t intern(const std::string& name) {
        const auto [found, is_new] = numbers_.try_emplace(name, static_cast<std::uint32_t>(numbers_.size()));
        if (is_new) {
            new_.push_back(name);
        }
        return found->second;
    }

    // Names since the last call, in the order of their numbers, which count from 0.
    std::vector<std::string> take_new() { return std::exchange(new_, {}); }

   private:
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::vector<std::string> new_;
};

}  // namespace weft
