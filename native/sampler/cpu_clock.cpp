#include "sampler/cpu_clock.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <utility>

namespace weft {

namespace {

// The control page and one page of records: mapped read-only, it is overwritten and never full, and the event still
// becomes readable at every overflow (kernel/events/ring_buffer.c).
std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
std::size_t ring_size() { return 2 * page_size(); }

struct TickRecord {
    perf_event_header header;
    std::uint64_t time_ns;
};

}  // namespace

CpuClock::~CpuClock() {
    if (ring_ != nullptr) {
        munmap(ring_, ring_size());
    }
}

CpuClock::CpuClock(CpuClock&& other) noexcept
    : event_(std::move(other.event_)),
      ticks_(other.ticks_),
      ring_(std::exchange(other.ring_, nullptr)),
      taken_(other.taken_) {}

CpuClock& CpuClock::operator=(CpuClock&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(ticks_, other.ticks_);
    std::swap(ring_, other.ring_);
    std::swap(taken_, other.taken_);
    return *this;
}

CpuClock CpuClock::open(pid_t tid, std::uint64_t period_ns, Ticks ticks) {
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_TASK_CLOCK;
    attr.sample_period = period_ns;
    attr.wakeup_events = 1;
    attr.sample_type = PERF_SAMPLE_TIME;
    attr.use_clockid = 1;
    attr.clockid = CLOCK_MONOTONIC;
    attr.exclude_kernel = ticks == Ticks::kWakeInUser || ticks == Ticks::kStopInUser ? 1 : 0;
    attr.exclude_user = ticks == Ticks::kWakeInKernel ? 1 : 0;
    attr.exclude_hv = 1;
    CpuClock clock;
    clock.event_ = Descriptor(static_cast<int>(
        syscall(SYS_perf_event_open, &attr, tid, -1, -1, static_cast<unsigned long>(PERF_FLAG_FD_CLOEXEC))));
    if (!clock.event_.valid()) {
        return clock;
    }
    clock.ticks_ = ticks;
    void* ring = mmap(nullptr, ring_size(), PROT_READ, MAP_SHARED, clock.event_.get(), 0);
    if (ring == MAP_FAILED) {
        clock.event_ = Descriptor();
        return clock;
    }
    clock.ring_ = ring;
    const f_owner_ex owner{F_OWNER_TID, tid};
    if (ticks == Ticks::kStopInUser &&
        (fcntl(clock.event_.get(), F_SETOWN_EX, &owner) != 0 || fcntl(clock.event_.get(), F_SETSIG, kTickSignal) != 0 ||
         fcntl(clock.event_.get(), F_SETFL, O_ASYNC) != 0)) {
        clock.event_ = Descriptor();
    }
    return clock;
}

std::optional<std::uint64_t> CpuClock::take_tick() {
    if (ring_ == nullptr) {
        return std::nullopt;
    }
    const auto* control = static_cast<const perf_event_mmap_page*>(ring_);
    const std::uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
    TickRecord record{};
    if (std::exchange(taken_, head) == head || head < sizeof record) {
        return std::nullopt;
    }
    // Records of 16 bytes never wrap around the end of the page.
    std::memcpy(&record, static_cast<const char*>(ring_) + page_size() + (head - sizeof record) % page_size(),
                sizeof record);
    if (record.header.type != PERF_RECORD_SAMPLE || record.header.size != sizeof record) {
        return std::nullopt;
    }
    return record.time_ns;
}

void CpuClock::set_period(std::uint64_t period_ns) const { ioctl(event_.get(), PERF_EVENT_IOC_PERIOD, &period_ns); }

}  // namespace weft
