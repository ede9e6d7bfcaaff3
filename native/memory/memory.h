// The one interface through which the walker and the unwinder see a target.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

using Address = std::uint64_t;  // in the target, whatever its pointer size

enum class ReadResult : std::uint8_t {
    kOk,
    kUnmapped,  // some of the bytes are not there
    kGone,      // the process has ended
    kDenied,    // the kernel forbids it
    kTooMuch,   // more than one look may read (limited.h)
};

class Memory {
   public:
    virtual ~Memory() = default;

    // Copies exactly `size` bytes at `address` to `to`; on any other result than kOk, `to` is undefined.
    [[nodiscard]] virtual ReadResult read(Address address, void* to, std::size_t size) = 0;
};

}  // namespace weft
