// Interning: each distinct frame and each distinct stack gets a number, and is told to the capture once.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "python/frames.h"
#include "weave/weave.h"

namespace weft {

// A hash map from 64-bit keys to 32-bit ids: open addressing, no removal. Key 0 is not allowed.
class IdMap {
   public:
    IdMap() { clear(); }

    // The id of `key`; 0 if it is new, and then it becomes `new_id`.
    std::uint32_t find_or_insert(std::uint64_t key, std::uint32_t new_id);
    std::size_t size() const { return size_; }
    void clear();

   private:
    struct Slot {
        std::uint64_t key = 0;
        std::uint32_t id = 0;
    };

    std::size_t home(std::uint64_t key) const {
        return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> 32) & (slots_.size() - 1);
    }
    void grow();

    std::vector<Slot> slots_;
    std::size_t size_ = 0;
};

// A frame as a number: equal frames have equal ones.
//
//   Python  code << 32 | (instruction + 2) << 1 | incomplete
//   marker  the same, with code 0 and the Loss in place of the instruction: frames are missing here, of Python, or (where an
//           incomplete one would be) native ones
//   native  1 << 63 | proof << 61 | by frame pointer << 59 | module << 47 | address in the module
//   kernel  1 << 63 | 1 << 60 | the low 48 bits of an address, or 1 << 61 | number of a name
class FrameKey {
   public:
    static FrameKey of(const PythonFrame& frame) {
        // Instructions are below 2^28 (frames.cpp), and -2 at least.
        const auto instruction = static_cast<std::uint32_t>(frame.instruction + 2);
        return FrameKey(static_cast<std::uint64_t>(frame.code) << 32 | instruction << 1 |
                        static_cast<std::uint32_t>(frame.incomplete));
    }
    static FrameKey missing(Loss loss, bool native) { return of({0, static_cast<std::int32_t>(loss), native}); }
    static FrameKey of(const NativeFrame& frame, Proof proof) {
        const bool fits = frame.place.module < 1U << kModuleBits && frame.place.address <= kAddress;
        const std::uint64_t module = fits ? frame.place.module : 0;
        const std::uint64_t address = fits && module != 0 ? frame.place.address : frame.lookup() & kAddress;
        const auto by_frame_pointer = static_cast<std::uint64_t>(frame.by_frame_pointer);
        return FrameKey(1ULL << 63 | static_cast<std::uint64_t>(proof) << 61 | by_frame_pointer << 59 | module << 47 |
                        address);
    }

    static FrameKey kernel(Address address) { return FrameKey(kKernel | (address & kKernelAddress)); }
    static FrameKey kernel_name(std::uint32_t name) { return FrameKey(kKernel | 1ULL << 61 | name); }

    std::uint64_t number() const { return number_; }
    bool is_python() const { return number_ >> 63 == 0; }  // or a marker
    bool is_native() const { return (number_ & kKernel) == 1ULL << 63; }
    bool is_kernel() const { return (number_ & kKernel) == kKernel; }
    bool is_marker() const { return number_ >> 32 == 0; }

    // Of a Python frame; of a marker, the instruction is the Loss.
    PythonFrame python() const {
        return {static_cast<std::uint32_t>(number_ >> 32),
                static_cast<std::int32_t>(static_cast<std::uint32_t>(number_) >> 1) - 2, (number_ & 1) != 0};
    }
    // Of a native frame; with module 0 the address is the process's own.
    std::uint32_t module() const { return static_cast<std::uint32_t>(number_ >> 47) & ((1U << kModuleBits) - 1); }
    std::uint64_t address() const { return number_ & kAddress; }  // of the instruction; of a call's, its last byte
    Proof proof() const { return static_cast<Proof>(number_ >> 61 & 3); }
    bool by_frame_pointer() const { return (number_ >> 59 & 1) != 0; }
    // Of a kernel frame.
    bool is_kernel_name() const { return is_kernel() && (number_ >> 61 & 1) != 0; }
    std::uint32_t kernel_name() const { return static_cast<std::uint32_t>(number_); }
    Address kernel_address() const { return (number_ & kKernelAddress) | ~kKernelAddress; }

   private:
    static constexpr std::uint64_t kAddress = (1ULL << 47) - 1;
    static constexpr unsigned kModuleBits = 12;  // code of further modules is told by its address in the process
    static constexpr std::uint64_t kKernel = 9ULL << 60;
    static constexpr std::uint64_t kKernelAddress = (1ULL << 48) - 1;  // the kernel's text lies in the last 2 GiB

    explicit FrameKey(std::uint64_t number) : number_(number) {}
    std::uint64_t number_;
};

struct FrameRow {
    std::uint32_t id = 0;
    FrameKey frame;
};

struct StackRow {
    std::uint32_t id = 0;
    std::uint32_t parent = 0;  // 0: the root
    std::uint32_t frame = 0;
};

// A thread's last stack, with its numbers: most of the next one is the same, and need not be looked up.
class LastStack {
   public:
    // Forgets all but the outermost frames that are the same; gives how many these are. With another parent none is.
    std::size_t keep_same(std::span<const FrameKey> frames, std::uint32_t parent);
    // Of what is left.
    std::uint32_t number() const { return numbers_.empty() ? parent_ : numbers_.back().second; }
    void push(FrameKey frame, std::uint32_t number) {
        if (numbers_.size() < kMost) {
            numbers_.emplace_back(frame, number);
        }
    }

   private:
    static constexpr std::size_t kMost = 256;  // frames of each thread, 4 KB

    std::uint32_t parent_ = 0;
    std::vector<std::pair<FrameKey, std::uint32_t>> numbers_;  // from the outermost on
};

class StackTable {
   public:
    // The stack made by pushing `frames` (innermost first) onto the stack `parent`.
    std::uint32_t intern(std::span<const FrameKey> frames, std::uint32_t parent);
    std::uint32_t intern(std::span<const FrameKey> frames, std::uint32_t parent, LastStack& last);

    // The same as a stack of its own, which can be told anew: its row comes again, with what it is then.
    std::uint32_t add(std::span<const FrameKey> frames, std::uint32_t parent);
    void tell_anew(std::uint32_t stack, std::span<const FrameKey> frames, std::uint32_t parent);

    // Rows since the last call.
    std::vector<FrameRow> take_frames() { return std::exchange(new_frames_, {}); }
    std::vector<StackRow> take_stacks() { return std::exchange(new_stacks_, {}); }

   private:
    std::uint32_t intern_frame(FrameKey frame);
    std::uint32_t push(FrameKey frame, std::uint32_t parent);

    IdMap frames_;
    IdMap stacks_;
    std::uint32_t next_frame_ = 1;
    std::uint32_t next_stack_ = 1;
    std::vector<FrameRow> new_frames_;
    std::vector<StackRow> new_stacks_;
};

}  // namespace weft
