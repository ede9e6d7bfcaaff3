#include "unwind/stack_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

}  // namespace

void StackCopy::begin(Memory& memory, Address stack_pointer, std::span<const std::byte> known) {
    memory_ = &memory;
    begin_ = stack_pointer;
    known_ = known;
    used_ = used_windows_ = next_window_ = 0;
    ends_ = false;
    result_ = ReadResult::kOk;
}

std::optional<std::uint64_t> StackCopy::word(Address address) {
    const Address distance = address - begin_;
    if (distance >= kMost || (distance > known_.size() && distance - known_.size() > kFar)) {
        return word_elsewhere(address);
    }
    if (distance + kWord > known_.size() && !extend(distance + kWord)) {
        return word_elsewhere(address);
    }
    used_ = std::max<std::size_t>(used_, distance + kWord);
    std::uint64_t value = 0;
    std::memcpy(&value, known_.data() + distance, sizeof value);
    return value;
}

std::span<const std::byte> StackCopy::bytes(std::size_t most) {
    extend(most);
    return known_.first(std::min(most, known_.size()));
}

// To `to` bytes at least, and twice as many as before: the deeper a stack is, the deeper it may be.
bool StackCopy::extend(Address to) {
    std::size_t size = known_.size();
    while (!ends_ && size < to) {
        if (!known_.empty() && known_.data() != bytes_.data()) {
            bytes_.assign(known_.begin(), known_.end());
        }
        const std::size_t more = std::clamp(to - size, std::max(kFirst, size), kMost);
        bytes_.resize(std::max(bytes_.size(), size + more));
        result_ = memory_->read(begin_ + size, bytes_.data() + size, more);
        if (result_ == ReadResult::kOk) {
            size += more;
        } else {
            // The stack ends before that: it is mapped by whole pages.
            ends_ = true;
            while (size < bytes_.size()) {
                const std::size_t rest = std::min(kPage - (begin_ + size) % kPage, bytes_.size() - size);
                if (memory_->read(begin_ + size, bytes_.data() + size, rest) != ReadResult::kOk) {
                    break;
                }
                size += rest;
            }
        }
        known_ = std::span(bytes_).first(size);
    }
    return size >= to;
}

std::optional<std::uint64_t> StackCopy::word_elsewhere(Address address) {
    const Window* window = window_of(address);
    if (window == nullptr) {
        return std::nullopt;
    }
    std::uint64_t value = 0;
    std::memcpy(&value, window->bytes.data() + (address - window->begin), sizeof value);
    return value;
}

// The window that holds the word at an address; null: it cannot be read.
const StackCopy::Window* StackCopy::window_of(Address address) {
    const auto holds = [&](const Window& window) {
        return address >= window.begin && window.size >= kWord && address - window.begin <= window.size - kWord;
    };
    for (std::size_t i = 0; i < used_windows_; ++i) {
        if (holds(windows_[i])) {
            return &windows_[i];
        }
    }
    windows_.resize(kWindows);
    Window& window = windows_[next_window_];
    next_window_ = (next_window_ + 1) % kWindows;
    used_windows_ = std::min(used_windows_ + 1, kWindows);
    const Address into_page = address % kPage;
    // The page, or what there is of it, in an image that has a part; last the word alone, which may go over its end.
    for (const auto& [begin, size] :
         {std::pair(address - into_page, kPage), std::pair(address, kPage - into_page), std::pair(address, kWord)}) {
        window.begin = begin;
        window.size = size;
        result_ = holds(window) ? memory_->read(begin, window.bytes.data(), size) : ReadResult::kUnmapped;
        if (result_ == ReadResult::kOk) {
            return &window;
        }
    }
    window.size = 0;
    return nullptr;
}

}  // namespace weft
