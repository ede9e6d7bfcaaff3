#include "memory/read_ahead.h"

#include <cstring>

namespace weft {

namespace {

// A plan is a guess: past this much it costs more than it saves.
constexpr std::size_t kMaxPlanSpans = 512;
constexpr std::size_t kMaxPlanBytes = 128 << 10;
constexpr std::size_t kMaxSpanBytes = 64 << 10;
// What a look that goes on beyond its plan keeps for the next one: a plan cannot hold more, and each read looks through
// all of it.
constexpr std::size_t kMaxPieces = 2 * kMaxPlanSpans;
constexpr std::size_t kMaxBytes = 1 << 20;

}  // namespace

void ReadAhead::begin(ProcessMemory& memory, const ReadPlan& plan) {
    memory_ = &memory;
    pieces_.clear();
    next_ = 0;
    std::size_t size = 0;
    for (const Span& span : plan) {
        size += span.size;
    }
    end_ = size;
    if (bytes_.size() < size) {
        bytes_.resize(size);
    }
    if (size == 0) {
        return;
    }
    ++calls_;
    const std::size_t got = memory.read_many(plan, bytes_.data());
    std::size_t offset = 0;
    for (const Span& span : plan) {
        if (offset + span.size > got) {
            break;
        }
        pieces_.push_back({span, offset, false});
        offset += span.size;
    }
}

void ReadAhead::end(ReadPlan& plan) {
    plan.clear();
    std::size_t size = 0;
    for (const Piece& piece : pieces_) {
        if (!piece.used || plan.size() >= kMaxPlanSpans || size + piece.span.size > kMaxPlanBytes) {
            continue;
        }
        plan.push_back(piece.span);
        size += piece.span.size;
    }
}

const ReadAhead::Piece* ReadAhead::find(Address address, std::size_t size) {
    const std::size_t count = pieces_.size();
    for (std::size_t step = 0; step < count; ++step) {
        std::size_t at = next_ + step;
        at = at < count ? at : at - count;
        Piece& piece = pieces_[at];
        // Unsigned: an address below the piece gives a distance that is too large.
        if (address - piece.span.address < piece.span.size &&
            size <= piece.span.size - (address - piece.span.address)) {
            piece.used = true;
            next_ = at + 1 < count ? at + 1 : 0;
            return &piece;
        }
    }
    return nullptr;
}

ReadResult ReadAhead::read(Address address, void* to, std::size_t size) {
    if (const Piece* piece = find(address, size)) {
        std::memcpy(to, bytes_.data() + piece->offset + (address - piece->span.address), size);
        return ReadResult::kOk;
    }
    ++calls_;
    const ReadResult result = memory_->read(address, to, size);
    if (result == ReadResult::kOk && size <= kMaxSpanBytes && pieces_.size() < kMaxPieces && end_ + size <= kMaxBytes) {
        if (bytes_.size() < end_ + size) {
            bytes_.resize(end_ + size);
        }
        std::memcpy(bytes_.data() + end_, to, size);
        pieces_.push_back({{address, static_cast<std::uint32_t>(size)}, end_, true});
        end_ += size;
    }
    return result;
}

}  // namespace weft
