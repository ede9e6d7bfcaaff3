// perf events, as weft opens them: of software, with the registers that a thread has in user mode.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

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

perf_event_attr software_event(std::uint64_t config);

// Of a thread on a CPU, or on all (-1). Not valid() where the kernel refuses (errno says why).
Descriptor open_event(const perf_event_attr& attr, pid_t tid, int cpu);

}  // namespace weft
