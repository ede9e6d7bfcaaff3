#include "sampler/kernel_sample.h"

#include <algorithm>
#include <cstring>

namespace weft {

bool KernelSample::parse(std::span<const std::byte> record) {
    frames_.clear();
    pieces_.clear();
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
        } else if (piece.kind == WEFT_KERNEL) {
            kernel_ = record.first(piece.size);
        } else {
            Frame& frame = frames_.emplace_back(piece.address, piece.kind == WEFT_CALLER);
            std::memcpy(&frame.told, record.data(), std::min<std::size_t>(piece.size, sizeof frame.told));
        }
        record = record.subspan(padded);
    }
    // Of pieces that overlap, the bytes are the same.
    std::ranges::stable_sort(pieces_, {}, &Piece::begin);
    return true;
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
    KernelChain chain;
    chain.count = std::min(kernel_.size() / sizeof(Address), chain.addresses.size());
    std::memcpy(chain.addresses.data(), kernel_.data(), chain.count * sizeof(Address));
    for (std::size_t i = 1; i < chain.count; ++i) {
        --chain.addresses[i];
    }
    return chain;
}

std::span<const std::byte> KernelSample::at(Address address) const {
    auto after = std::ranges::upper_bound(pieces_, address, {}, &Piece::begin);
    // Pieces are of 1 KiB at most, and a few of them lie in others: the longest rest counts.
    std::span<const std::byte> best;
    for (int i = 0; i < 8 && after != pieces_.begin(); ++i) {
        --after;
        const Address into = address - after->begin;
        if (into < after->bytes.size() && after->bytes.size() - into > best.size()) {
            best = after->bytes.subspan(into);
        }
    }
    return best;
}

ReadResult SampleMemory::read(Address address, void* to, std::size_t size) {
    auto* bytes = static_cast<std::byte*>(to);
    while (size != 0) {
        const auto found = sample_.at(address);
        if (found.empty()) {
            if (code_.find(address).module != 0) {
                return process_.read(address, bytes, size);
            }
            return sample_.head().python_end == WEFT_END_DEPTH ? ReadResult::kTooMuch : ReadResult::kUnmapped;
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
