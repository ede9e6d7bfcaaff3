// A sample that the kernel has taken (bpf/abi.h): where its thread was, and the memory that was read of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "abi.h"
#include "memory/late_pages.h"
#include "memory/past.h"
#include "python/code_identity.h"
#include "sampler/kernel.h"
#include "sampler/proc.h"
#include "unwind/code_map.h"
#include "unwind/unwinder.h"

namespace weft {

class KernelSample {
   public:
    // Of a record of the ring. False: it is none.
    bool parse(std::span<const std::byte> record);

    // It was walked as one of another program, which the process was before: what the walk has found is nothing. What it has read, it
    // has read.
    void forget_walk();

    const weft_sample& head() const { return head_; }
    RegisterSet registers() const;
    SchedStat stat() const { return {head_.cpu_ns, head_.delay_ns, head_.switches}; }

    // Whether the kernel has followed the native frames as far as that could be. If not, there is a copy of the stack.
    bool native_is_done() const { return head_.native_end <= WEFT_END_DEPTH; }
    // Whether there was memory that the kernel could not read.
    bool met_unreadable() const { return head_.native_end > WEFT_END_DEPTH || head_.python_end == WEFT_END_UNREADABLE; }
    // Whether more has to be read of the process, which goes on: what the walks could not read, and code objects that are new, of which
    // long texts are not told.
    bool leaves_to_read() const;
    void native(CodeMap& code, NativeStack& stack) const;

    KernelChain kernel() const;  // empty if the thread was in user mode

    // The code objects of its Python frames, by their addresses.
    std::span<const CodeIdentity> codes() const { return codes_; }

    // The bytes at an address, as far as they are in one piece; empty: they are in none.
    std::span<const std::byte> at(Address address) const;

   private:
    struct Piece {
        Address begin = 0;
        std::span<const std::byte> bytes;
    };
    struct Frame {
        Address pc = 0;
        bool is_return = false;
        weft_frame told{};
    };

    weft_sample head_{};
    std::vector<Frame> frames_;           // innermost first
    std::vector<Piece> pieces_;           // by their begin
    mutable std::size_t last_found_ = 0;  // in pieces_: frames that call each other lie beside each other
    std::vector<CodeIdentity> codes_;
    std::span<const std::byte> kernel_;
};

// The memory of the target as it was at the sample. Code is read in `process`: it does not change. What was not resident then is read
// there too, if it still is as it was (`late`; null: it is not looked for).
class SampleMemory final : public Memory {
   public:
    SampleMemory(const KernelSample& sample, CodeMap& code, Memory& process, LatePages* late = nullptr)
        : sample_(sample), code_(code), process_(process), late_(late) {}

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override;

   private:
    const KernelSample& sample_;
    CodeMap& code_;
    Memory& process_;
    LatePages* late_;
};

// The objects that the thread's frames name.
class SampleObjects final : public PastMemory {
   public:
    explicit SampleObjects(const KernelSample& sample) : sample_(sample) {}

   protected:
    std::span<const std::byte> told(Address address) const override { return sample_.at(address); }

   private:
    const KernelSample& sample_;
};

}  // namespace weft
