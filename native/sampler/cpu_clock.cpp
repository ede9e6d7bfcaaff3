#include "sampler/cpu_clock.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace weft {

namespace {

// The control page and one page of records, which nobody reads: mapped read-only, it is overwritten and never full, and
// the event still becomes readable at every overflow (kernel/events/ring_buffer.c).
std::size_t ring_size() { return 2 * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

CpuClock::~CpuClock() {
    if (ring_ != nullptr) {
        munmap(ring_, ring_size());
    }
}

CpuClock::CpuClock(CpuClock&& other) noexcept
    : event_(std::move(other.event_)), ring_(std::exchange(other.ring_, nullptr)) {}

CpuClock& CpuClock::operator=(CpuClock&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(ring_, other.ring_);
    return *this;
}

CpuClock CpuClock::open(pid_t tid, std::uint64_t period_ns, bool user_only) {
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_TASK_CLOCK;
    attr.sample_period = period_ns;
    attr.wakeup_events = 1;
    attr.exclude_kernel = user_only ? 1 : 0;
    attr.exclude_hv = 1;
    CpuClock clock;
    clock.event_ = Descriptor(static_cast<int>(
        syscall(SYS_perf_event_open, &attr, tid, -1, -1, static_cast<unsigned long>(PERF_FLAG_FD_CLOEXEC))));
    if (!clock.event_.valid()) {
        return clock;
    }
    void* ring = mmap(nullptr, ring_size(), PROT_READ, MAP_SHARED, clock.event_.get(), 0);
    if (ring == MAP_FAILED) {
        clock.event_ = Descriptor();
        return clock;
    }
    clock.ring_ = ring;
    return clock;
}

void CpuClock::set_period(std::uint64_t period_ns) const { ioctl(event_.get(), PERF_EVENT_IOC_PERIOD, &period_ns); }

}  // namespace weft
