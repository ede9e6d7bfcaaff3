// Reading DWARF's bytes, which are hostile: nothing is read beyond their end, and what is missing reads as 0 and is told.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace weft {

using Bytes = std::span<const std::byte>;

class Cursor {
   public:
    // `address`: where the bytes lie in the module, as its own program headers count.
    Cursor(Bytes bytes, std::uint64_t address) : bytes_(bytes), address_(address) {}

    bool at_end() const { return at_ >= bytes_.size(); }
    std::size_t left() const { return bytes_.size() - at_; }
    bool failed() const { return failed_; }  // a read went beyond the end, or met what it cannot decode
    std::uint64_t address() const { return address_ + at_; }

    template <typename T>
    T fixed() {
        T value{};
        if (bytes_.size() - at_ < sizeof(T)) {
            fail();
            return value;
        }
        std::memcpy(&value, bytes_.data() + at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }

    // DWARF 5, 7.6. Bits beyond the 64th are dropped.
    std::uint64_t uleb() {
        bool negative = false;
        return leb(negative);
    }
    std::int64_t sleb() {
        bool negative = false;
        return static_cast<std::int64_t>(leb(negative) | (negative ? extension_ : 0));
    }

    // The text up to a NUL.
    const char* text() {
        const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
        const void* end = at_end() ? nullptr : std::memchr(begin, 0, bytes_.size() - at_);
        if (end == nullptr) {
            fail();
            return "";
        }
        at_ += static_cast<std::size_t>(static_cast<const char*>(end) - begin) + 1;
        return begin;
    }

    // The next `size` bytes, as a cursor of their own.
    Cursor take(std::uint64_t size) {
        const std::uint64_t there = bytes_.size() - at_;
        if (size > there) {
            fail();
            size = 0;
        }
        Cursor part(bytes_.subspan(at_, size), address());
        at_ += size;
        return part;
    }

    void skip(std::uint64_t size) { static_cast<void>(take(size)); }

    void fail() {
        failed_ = true;
        at_ = bytes_.size();
    }

   private:
    std::uint64_t leb(bool& negative) {
        std::uint64_t value = 0;
        unsigned shift = 0;
        std::uint8_t byte = 0;
        do {
            byte = fixed<std::uint8_t>();
            if (shift < 64) {
                value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            }
            shift += 7;
        } while ((byte & 0x80) != 0 && !failed_);
        negative = (byte & 0x40) != 0 && shift < 64;
        extension_ = negative ? ~std::uint64_t{0} << shift : 0;
        return value;
    }

    Bytes bytes_;
    std::uint64_t address_;
    std::size_t at_ = 0;
    std::uint64_t extension_ = 0;  // of the sign of what leb() read
    bool failed_ = false;
};

}  // namespace weft
