// Fields of the target's structs, by the layout's offsets, out of bytes that were read.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "memory/memory.h"
#include "python/layout.h"
#include "python/loss.h"

namespace weft {

// The bytes of one struct. A field outside of what was read is 0, which every reader takes for "not there".
class Fields {
   public:
    Fields(const std::byte* bytes, std::size_t size, std::uint32_t pointer_size)
        : bytes_(bytes), size_(size), pointer_size_(pointer_size) {}

    Address pointer(std::uint32_t offset) const {
        return pointer_size_ == 8 ? get<std::uint64_t>(offset) : get<std::uint32_t>(offset);
    }

    template <typename T>
    T get(std::uint32_t offset) const {
        T value{};
        if (offset <= size_ && sizeof(T) <= size_ - offset) {
            std::memcpy(&value, bytes_ + offset, sizeof(T));
        }
        return value;
    }

   private:
    const std::byte* bytes_;
    std::size_t size_;
    std::uint32_t pointer_size_;
};

inline bool present(std::uint32_t offset) { return offset != kAbsent; }

// The end of a field, for the size of a read that must have it; an absent one asks for nothing.
inline std::uint32_t end_of(std::uint32_t offset, std::uint32_t size) { return present(offset) ? offset + size : 0; }

inline Loss to_loss(ReadResult result) {
    switch (result) {
        case ReadResult::kOk: return Loss::kNone;
        case ReadResult::kUnmapped: return Loss::kUnreadable;
        case ReadResult::kGone: return Loss::kExited;
        case ReadResult::kDenied: return Loss::kDenied;
        case ReadResult::kTooMuch: return Loss::kDepth;
    }
    return Loss::kUnreadable;
}

inline Loss read_pointer(Memory& memory, const Layout& layout, Address address, Address& value) {
    std::uint64_t bytes = 0;
    const ReadResult result = memory.read(address, &bytes, layout.pointer_size);
    value = layout.pointer_size == 8 ? bytes : static_cast<std::uint32_t>(bytes);
    return to_loss(result);
}

}  // namespace weft
