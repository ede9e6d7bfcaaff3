// perf events, as weft opens them: of software, with the registers that a thread has in user mode.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "memory/descriptor.h"
#include "unwind/rule.h"

namespace weft {

// What sample_regs_user asks for, and what a record then has: the registers in the order of perf's numbers
// (arch/x86/include/uapi/asm/perf_regs.h: AX 0, BX 1, ... IP 8, R8 16, ... R15 23).
constexpr std::uint64_t kRecordedMask = 0x1ff | 0xffULL << 16;
struct RecordedRegisters {
    std::uint64_t abi;
    std::uint64_t values[kRegisters];

    RegisterSet all() const;
};

std::size_t page_size();

// The records of a ring of a power of two of bytes, read from an offset on; they may go on at the ring's beginning.
// perf pads them to 8 bytes.
class RecordReader {
   public:
    RecordReader(const char* ring, std::size_t size, std::uint64_t at) : ring_(ring), last_(size - 1), at_(at) {}

    void skip(std::size_t bytes) { at_ += bytes; }

    template <typename T>
    void read(T& value) {
        static_assert(sizeof value % sizeof(std::uint64_t) == 0);
        auto* bytes = reinterpret_cast<char*>(&value);
        for (std::size_t i = 0; i < sizeof value; i += sizeof(std::uint64_t), at_ += sizeof(std::uint64_t)) {
            std::memcpy(bytes + i, ring_ + (at_ & last_), sizeof(std::uint64_t));
        }
    }

   private:
    const char* ring_;
    std::uint64_t last_;
    std::uint64_t at_;
};

perf_event_attr software_event(std::uint64_t config);

// An event that counts nothing and owns a ring, which the kernel writes into.
class EventRing {
   public:
    EventRing(Descriptor event, std::size_t record_pages);  // a power of two; not valid() where the kernel refuses
    ~EventRing();
    EventRing(const EventRing&) = delete;
    EventRing& operator=(const EventRing&) = delete;

    bool valid() const { return pages_ != nullptr; }
    int descriptor() const { return event_.get(); }

    bool has_records() const;  // that were not taken

    // Calls `on_record` for each record since the last call, oldest first. Those that found the ring full are lost.
    void take(const std::function<void(const perf_event_header&, RecordReader)>& on_record);

   private:
    Descriptor event_;
    std::size_t record_bytes_;
    void* pages_ = nullptr;
};

// Of a thread (or of all, -1) on a CPU (or on all, -1). Not valid() where the kernel refuses (errno says why), and EMFILE where
// three quarters of our files are open.
Descriptor open_event(const perf_event_attr& attr, pid_t tid, int cpu);

}  // namespace weft
