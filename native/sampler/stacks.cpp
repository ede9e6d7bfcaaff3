#include "sampler/stacks.h"

#include <algorithm>
#include <ranges>

namespace weft {

namespace {

constexpr std::size_t kFirstSlots = 1 << 10;
// A program that never shows a stack twice must not fill our memory: past this many (64 MB) the table forgets, and the
// same stack may get a second number, which readers merge.
constexpr std::size_t kMaxEntries = 2 << 20;

}  // namespace

void IdMap::clear() {
    slots_.assign(kFirstSlots, {});
    size_ = 0;
}

void IdMap::grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
        if (slot.key != 0) {
            std::size_t at = home(slot.key);
            while (slots_[at].key != 0) {
                at = (at + 1) & (slots_.size() - 1);
            }
            slots_[at] = slot;
        }
    }
}

std::uint32_t IdMap::find_or_insert(std::uint64_t key, std::uint32_t new_id) {
    std::size_t at = home(key);
    while (slots_[at].key != 0) {
        if (slots_[at].key == key) {
            return slots_[at].id;
        }
        at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = {key, new_id};
    if (++size_ * 2 > slots_.size()) {
        grow();
    }
    return 0;
}

std::size_t LastStack::keep_same(std::span<const FrameKey> frames, std::uint32_t parent) {
    std::size_t same = 0;
    if (parent == parent_) {
        const auto outermost_first = std::views::reverse(frames);
        const auto differs = std::ranges::mismatch(
            numbers_, outermost_first, {}, [](const auto& known) { return known.first.number(); }, &FrameKey::number);
        same = static_cast<std::size_t>(differs.in1 - numbers_.begin());
    }
    parent_ = parent;
    numbers_.erase(numbers_.begin() + static_cast<std::ptrdiff_t>(same), numbers_.end());
    return same;
}

std::uint32_t StackTable::intern_frame(FrameKey frame) {
    if (frames_.size() >= kMaxEntries) {
        frames_.clear();
    }
    const std::uint32_t known = frames_.find_or_insert(frame.number(), next_frame_);
    if (known != 0) {
        return known;
    }
    new_frames_.push_back({next_frame_, frame});
    return next_frame_++;
}

std::uint32_t StackTable::push(FrameKey frame, std::uint32_t parent) {
    if (stacks_.size() >= kMaxEntries) {
        stacks_.clear();
    }
    const std::uint32_t frame_id = intern_frame(frame);
    const std::uint64_t key = static_cast<std::uint64_t>(parent) << 32 | frame_id;
    const std::uint32_t known = stacks_.find_or_insert(key, next_stack_);
    if (known != 0) {
        return known;
    }
    new_stacks_.push_back({next_stack_, parent, frame_id});
    return next_stack_++;
}

std::uint32_t StackTable::intern(std::span<const FrameKey> frames, std::uint32_t parent) {
    for (const FrameKey frame : std::views::reverse(frames)) {
        parent = push(frame, parent);
    }
    return parent;
}

std::uint32_t StackTable::intern(std::span<const FrameKey> frames, std::uint32_t parent, LastStack& last) {
    const std::size_t same = last.keep_same(frames, parent);
    parent = last.number();
    for (const FrameKey frame : std::views::reverse(frames.first(frames.size() - same))) {
        parent = push(frame, parent);
        last.push(frame, parent);
    }
    return parent;
}

std::uint32_t StackTable::add(std::span<const FrameKey> frames, std::uint32_t parent) {
    const std::uint32_t stack = next_stack_++;
    tell_anew(stack, frames, parent);
    return stack;
}

void StackTable::tell_anew(std::uint32_t stack, std::span<const FrameKey> frames, std::uint32_t parent) {
    const std::uint32_t caller = intern(frames.subspan(1), parent);
    new_stacks_.push_back({stack, caller, intern_frame(frames.front())});
}

}  // namespace weft
