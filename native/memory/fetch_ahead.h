// Memory that another CPU has written: each line of the cache takes as long to come as dozens of instructions, and several can be on
// their way at once.
#pragma once

#include <cstddef>
#include <span>

namespace weft {

inline void fetch_ahead(std::span<const std::byte> bytes) {
    constexpr std::size_t kCacheLine = 64;
    for (std::size_t at = 0; at < bytes.size(); at += kCacheLine) {
        __builtin_prefetch(bytes.data() + at);
    }
}

}  // namespace weft
