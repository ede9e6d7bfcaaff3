#include "sampler/perf_event.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <ctime>

namespace weft {

namespace {

constexpr std::array kRecorded = {Register::kRax, Register::kRbx, Register::kRcx, Register::kRdx,    Register::kRsi,
                                  Register::kRdi, Register::kRbp, Register::kRsp, Register::kReturn, Register::kR8,
                                  Register::kR9,  Register::kR10, Register::kR11, Register::kR12,    Register::kR13,
                                  Register::kR14, Register::kR15};
static_assert(kRecorded.size() == kRegisters);

}  // namespace

RegisterSet RecordedRegisters::all() const {
    RegisterSet registers;
    for (std::size_t i = 0; i < kRecorded.size(); ++i) {
        registers.set(kRecorded[i], values[i]);
    }
    return registers;
}

std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

perf_event_attr software_event(std::uint64_t config) {
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = config;
    attr.use_clockid = 1;
    attr.clockid = CLOCK_MONOTONIC;
    attr.exclude_hv = 1;
    return attr;
}

Descriptor open_event(const perf_event_attr& attr, pid_t tid, int cpu) {
    return Descriptor(static_cast<int>(
        syscall(SYS_perf_event_open, &attr, tid, cpu, -1, static_cast<unsigned long>(PERF_FLAG_FD_CLOEXEC))));
}

}  // namespace weft
