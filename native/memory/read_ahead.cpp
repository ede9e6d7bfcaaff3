#include "memory/read_ahead.h"

#include <algorithm>
#include <cstring>

namespace weft {

namespace {

// A plan is a guess: past this much it costs more than it saves.
constexpr std::size_t kMaxPlanSpans = 512;
constexpr std::size_t kMaxPlanBytes = 128 << 10;
constexpr std::size_t kPages = 64;
constexpr std::size_t kMaxSearch = 64;

}  // namespace

void ReadAhead::begin(ProcessMemory& memory, const ReadPlan& plan, const Span& stack) {
    memory_ = &memory;
    pieces_.clear();
    stack_ = {};
    missed_.clear();
    next_ = 0;
    ++look_;
    // The stack last: where it cannot be read, the plan has been.
    wanted_ = plan;
    if (stack.size != 0) {
        wanted_.push_back(stack);
    }
    std::size_t size = 0;
    for (const Span& span : wanted_) {
        size += span.size;
    }
    if (bytes_.size() < size) {
        bytes_.resize(size);
    }
    if (size == 0) {
        return;
    }
    ++calls_;
    const std::size_t got = memory.read_many(wanted_, bytes_.data());
    std::size_t offset = 0;
    for (const Span& span : wanted_) {
        if (offset + span.size > got) {
            break;
        }
        pieces_.push_back({span, offset, false});
        offset += span.size;
    }
    if (stack.size != 0 && pieces_.size() == wanted_.size()) {
        stack_ = pieces_.back();
        pieces_.pop_back();
    }
}

void ReadAhead::end(ReadPlan& plan) {
    plan.clear();
    std::size_t size = 0;
    const auto keep = [&](const Span& span) {
        if (plan.size() < kMaxPlanSpans && size + span.size <= kMaxPlanBytes) {
            plan.push_back(span);
            size += span.size;
        }
    };
    for (const Piece& piece : pieces_) {
        if (piece.used) {
            keep(piece.span);
        }
    }
    for (const Span& span : missed_) {
        keep(span);
    }
}

const std::byte* ReadAhead::find_in(const Piece& piece, Address address, std::size_t size) const {
    // Unsigned: an address below the piece gives a distance that is too large.
    const std::uint64_t distance = address - piece.span.address;
    return distance < piece.span.size && size <= piece.span.size - distance ? bytes_.data() + piece.offset + distance
                                                                            : nullptr;
}

const std::byte* ReadAhead::find(Address address, std::size_t size) {
    if (const std::byte* found = find_in(stack_, address, size)) {
        return found;
    }
    const std::size_t count = pieces_.size();
    for (std::size_t step = 0; step < std::min(count, kMaxSearch); ++step) {
        std::size_t at = next_ + step;
        at = at < count ? at : at - count;
        if (const std::byte* found = find_in(pieces_[at], address, size)) {
            pieces_[at].used = true;
            next_ = at + 1 < count ? at + 1 : 0;
            return found;
        }
    }
    return nullptr;
}

ReadResult ReadAhead::read_page(Address begin, const Page*& page) {
    pages_.resize(kPages);
    Page& slot = pages_[begin / kPageBytes % kPages];
    page = &slot;
    if (slot.begin == begin && slot.look == look_) {
        return ReadResult::kOk;
    }
    ++calls_;
    slot.look = 0;
    const ReadResult result = memory_->read(begin, slot.bytes.data(), kPageBytes);
    if (result == ReadResult::kOk) {
        slot.begin = begin;
        slot.look = look_;
    }
    return result;
}

ReadResult ReadAhead::read(Address address, void* to, std::size_t size) {
    if (const std::byte* found = find(address, size)) {
        std::memcpy(to, found, size);
        return ReadResult::kOk;
    }
    ReadResult result = ReadResult::kOk;
    const std::size_t within = address % kPageBytes;
    if (within + size <= kPageBytes) {
        // What is mapped is mapped by whole pages.
        const Page* page = nullptr;
        result = read_page(address - within, page);
        if (result == ReadResult::kOk) {
            std::memcpy(to, page->bytes.data() + within, size);
        }
    } else {
        ++calls_;
        result = memory_->read(address, to, size);
    }
    if (result == ReadResult::kOk && missed_.size() < kMaxPlanSpans && size <= kMaxPlanBytes) {
        missed_.push_back({address, static_cast<std::uint32_t>(size)});
    }
    return result;
}

}  // namespace weft
