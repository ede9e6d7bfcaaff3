#include "sampler/kernel_sample.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "memory/fetch_ahead.h"

namespace weft {

bool KernelSample::parse(std::span<const std::byte> record) {
    frames_.clear();
    pieces_.clear();
    last_found_ = 0;
    codes_.clear();
    kernel_ = {};
    if (record.size() < sizeof head_) {
        return false;
    }
    std::memcpy(&head_, record.data(), sizeof head_);
    record = record.subspan(sizeof head_);
    if (record.size() < head_.bytes) {
        return false;
    }
    record = record.first(head_.bytes);
    while (record.size() >= sizeof(weft_piece)) {
        weft_piece piece{};
        std::memcpy(&piece, record.data(), sizeof piece);
        record = record.subspan(sizeof piece);
        const std::size_t padded = (std::size_t{piece.size} + 7) & ~std::size_t{7};
        if (padded > record.size()) {
            return false;
        }
        if (piece.kind == WEFT_MEMORY) {
            pieces_.push_back({piece.address, record.first(piece.size)});
        } else if (piece.kind == WEFT_CODE || piece.kind == WEFT_NEW_CODE) {
            CodeIdentity& code = codes_.emplace_back(CodeIdentity{piece.address, 0, piece.kind == WEFT_NEW_CODE});
            std::memcpy(&code.identity, record.data(), std::min<std::size_t>(piece.size, sizeof code.identity));
        } else if (piece.kind == WEFT_KERNEL) {
            kernel_ = record.first(piece.size);
        } else {
            Frame& frame = frames_.emplace_back(Frame{piece.address, piece.kind == WEFT_CALLER, {}});
            std::memcpy(&frame.told, record.data(), std::min<std::size_t>(piece.size, sizeof frame.told));
        }
        record = record.subspan(padded);
    }
    std::ranges::sort(codes_, {}, &CodeIdentity::address);
    // Where pieces overlap, the bytes are the same: those that lie in others are left out. Of what is left, a piece that begins
    // later ends later.
    std::ranges::sort(pieces_, [](const Piece& a, const Piece& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.bytes.size() > b.bytes.size();
    });
    Address end = 0;
    std::erase_if(pieces_, [&](const Piece& piece) {
        const Address own_end = piece.begin + piece.bytes.size();
        return own_end <= std::exchange(end, std::max(end, own_end));
    });
    return true;
}

void KernelSample::forget_walk() {
    frames_.clear();
    codes_.clear();
    head_.thread_state = 0;
    head_.native_end = std::max<std::uint32_t>(head_.native_end, WEFT_END_UNREADABLE);
    head_.python_end = WEFT_END_UNREADABLE;
}

bool KernelSample::leaves_to_read() const {
    return met_unreadable() || std::ranges::any_of(codes_, &CodeIdentity::is_new);
}

RegisterSet KernelSample::registers() const {
    RegisterSet registers;
    for (std::size_t i = 0; i < kRegisters; ++i) {
        registers.set(static_cast<Register>(i), head_.registers[i]);
    }
    return registers;
}

void KernelSample::native(CodeMap& code, NativeStack& stack) const {
    stack.frames.clear();
    stack.loss = head_.native_end == WEFT_END_WHOLE   ? Loss::kNone
                 : head_.native_end == WEFT_END_DEPTH ? Loss::kDepth
                                                      : Loss::kUnreadable;
    for (const Frame& from : frames_) {
        NativeFrame& frame = stack.frames.emplace_back();
        frame.pc = from.pc;
        frame.stack_pointer = from.told.stack_pointer;
        frame.cfa = from.told.cfa;
        frame.is_return = from.is_return;
        std::ranges::copy(from.told.preserved, frame.preserved.begin());
        frame.place = code.find(frame.lookup());
        if (frame.place.stack_base) {
            frame.cfa = 0;
            stack.loss = Loss::kNone;
            return;
        }
    }
}

KernelChain KernelSample::kernel() const {
    // At a tracepoint, the innermost frame is that of our own program.
    const bool has_own = head_.record == WEFT_OUT && kernel_.size() >= sizeof(Address);
    const std::span<const std::byte> told = kernel_.subspan(has_own ? sizeof(Address) : 0);
    KernelChain chain;
    chain.count = std::min(told.size() / sizeof(Address), chain.addresses.size());
    std::ranges::copy(told.first(chain.count * sizeof(Address)),
                      std::as_writable_bytes(std::span(chain.addresses)).begin());
    for (std::size_t i = has_own ? 0 : 1; i < chain.count; ++i) {
        --chain.addresses[i];
    }
    return chain;
}

std::span<const std::byte> KernelSample::at(Address address) const {
    const auto begins_behind = [&](std::size_t number) {
        return number >= pieces_.size() || pieces_[number].begin > address;
    };
    if (begins_behind(last_found_) || !begins_behind(last_found_ + 1)) {
        const auto after = std::ranges::upper_bound(pieces_, address, {}, &Piece::begin);
        if (after == pieces_.begin()) {
            return {};
        }
        const std::size_t found = static_cast<std::size_t>(after - pieces_.begin()) - 1;
        // Older frames lie on in the same direction.
        const std::size_t next = found + (found - last_found_);
        if (next < pieces_.size() && (next == found + 1 || next + 1 == found)) {
            fetch_ahead(pieces_[next].bytes);
        }
        last_found_ = found;
    }
    const Piece& piece = pieces_[last_found_];
    const Address into = address - piece.begin;
    return into < piece.bytes.size() ? piece.bytes.subspan(into) : std::span<const std::byte>();
}

ReadResult SampleMemory::read(Address address, void* to, std::size_t size) {
    auto* bytes = static_cast<std::byte*>(to);
    while (size != 0) {
        const auto found = sample_.at(address);
        if (found.empty()) {
            if (code_.find(address).module != 0) {
                return process_.read(address, bytes, size);
            }
            if (sample_.head().python_end == WEFT_END_DEPTH) {
                return ReadResult::kTooMuch;
            }
            return late_ == nullptr ? ReadResult::kUnmapped : late_->read(process_, address, bytes, size);
        }
        const std::size_t count = std::min(size, found.size());
        std::memcpy(bytes, found.data(), count);
        bytes += count;
        address += count;
        size -= count;
    }
    return ReadResult::kOk;
}

}  // namespace weft
