#include "unwind/stack_copy.h"

#include <algorithm>
#include <cstring>

namespace weft {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr Address kPage = 4096;

}  // namespace

void StackCopy::begin(Memory& memory, Address stack_pointer) {
    memory_ = &memory;
    begin_ = stack_pointer;
    size_ = window_size_ = 0;
    ends_ = false;
    result_ = ReadResult::kOk;
}

std::optional<std::uint64_t> StackCopy::word(Address address) {
    const Address distance = address - begin_;
    if (distance >= kMost) {
        return word_elsewhere(address);
    }
    if (distance + kWord > size_ && !extend(distance + kWord)) {
        return word_elsewhere(address);
    }
    std::uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + distance, sizeof value);
    return value;
}

std::span<const std::byte> StackCopy::bytes(std::size_t most) {
    extend(most);
    return std::span(bytes_).first(std::min(most, size_));
}

// To `to` bytes at least, and twice as many as before: the deeper a stack is, the deeper it may be.
bool StackCopy::extend(Address to) {
    while (!ends_ && size_ < to) {
        const std::size_t more = std::clamp(to - size_, std::max(kFirst, size_), kMost);
        bytes_.resize(std::max(bytes_.size(), size_ + more));
        result_ = memory_->read(begin_ + size_, bytes_.data() + size_, more);
        if (result_ == ReadResult::kOk) {
            size_ += more;
            continue;
        }
        // The stack ends before that: it is mapped by whole pages.
        ends_ = true;
        while (size_ < bytes_.size()) {
            const std::size_t rest = std::min(kPage - (begin_ + size_) % kPage, bytes_.size() - size_);
            if (memory_->read(begin_ + size_, bytes_.data() + size_, rest) != ReadResult::kOk) {
                break;
            }
            size_ += rest;
        }
    }
    return size_ >= to;
}

std::optional<std::uint64_t> StackCopy::word_elsewhere(Address address) {
    const bool inside =
        address >= window_begin_ && window_size_ >= kWord && address - window_begin_ <= window_size_ - kWord;
    if (!inside) {
        window_begin_ = address;
        window_size_ = 0;
        for (const std::size_t size : {kWindow, static_cast<std::size_t>(kPage - address % kPage), kWord}) {
            result_ = size < kWord ? ReadResult::kUnmapped : memory_->read(address, window_.data(), size);
            if (result_ == ReadResult::kOk) {
                window_size_ = size;
                break;
            }
        }
        if (window_size_ == 0) {
            return std::nullopt;
        }
    }
    std::uint64_t value = 0;
    std::memcpy(&value, window_.data() + (address - window_begin_), sizeof value);
    return value;
}

}  // namespace weft
