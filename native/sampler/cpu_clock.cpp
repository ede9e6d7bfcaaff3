#include "sampler/cpu_clock.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <numeric>
#include <ranges>
#include <utility>

#include "sampler/perf_event.h"

namespace weft {

namespace {

constexpr std::size_t kRecordPages = 4;

Descriptor owner_of_ring(int cpu) {
    perf_event_attr attr = software_event(PERF_COUNT_SW_DUMMY);
    attr.exclude_kernel = 1;
    return open_event(attr, 0, cpu);
}

// What perf_event_open(2) writes for the sample_type below: this,
struct TickHead {
    perf_event_header header;
    std::uint32_t process;
    std::uint32_t thread;
    std::uint64_t time_ns;
    std::uint64_t addresses;
};
// so many addresses of the kernel's stack, RecordedRegisters, and the stack: its size, that many bytes, and how many of these are
// valid, which is not there where the size is 0.

bool read_tick(const perf_event_header& header, RecordReader record, Tick& tick) {
    const std::size_t fixed = sizeof(TickHead) + sizeof(RecordedRegisters) + sizeof(std::uint64_t);
    if (header.type != PERF_RECORD_SAMPLE || header.size < fixed) {
        return false;
    }
    TickHead head{};
    record.read(head);
    std::size_t left = header.size - fixed;
    if (head.addresses > left / sizeof(Address)) {
        return false;
    }
    left -= head.addresses * sizeof(Address);
    tick.tid = static_cast<pid_t>(head.thread);
    tick.time_ns = head.time_ns;
    for (std::uint64_t i = 0; i < head.addresses; ++i) {
        Address address = 0;
        record.read(address);
        // Besides addresses there are marks of what follows, which are none.
        if (address < static_cast<Address>(PERF_CONTEXT_MAX) && tick.kernel.count < kMaxKernelFrames) {
            tick.kernel.addresses[tick.kernel.count] = address - (tick.kernel.count == 0 ? 0 : 1);
            ++tick.kernel.count;
        }
    }
    RecordedRegisters registers{};
    record.read(registers);
    tick.registers = registers.all();
    std::uint64_t size = 0;
    record.read(size);
    std::uint64_t valid = 0;
    if (size == kTickStack && left == kTickStack + sizeof valid) {
        record.read(tick.stack);
        record.read(valid);
        tick.stack_size = std::min<std::size_t>(valid, kTickStack);
    }
    return true;
}

}  // namespace

TickRing::TickRing(int cpu) : cpu_(cpu), ring_(owner_of_ring(cpu), kRecordPages) {}

void TickRing::take(std::vector<Tick>& ticks) {
    ring_.take([&](const perf_event_header& header, RecordReader record) {
        if (!read_tick(header, record, ticks.emplace_back())) {
            ticks.pop_back();
        }
    });
}

CpuClock CpuClock::open(pid_t tid, std::uint64_t first_ns, Ticks ticks,
                        const std::vector<std::shared_ptr<TickRing>>& rings) {
    perf_event_attr attr = software_event(PERF_COUNT_SW_TASK_CLOCK);
    attr.sample_period = first_ns;
    attr.wakeup_events = 1;
    attr.sample_type =
        PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attr.sample_stack_user = kTickStack;
    attr.sample_regs_user = kRecordedMask;
    attr.exclude_kernel = ticks == Ticks::kUser ? 1 : 0;
    attr.exclude_callchain_user = 1;
    attr.exclude_callchain_kernel = ticks == Ticks::kStacks ? 0 : 1;
    attr.sample_max_stack = kMaxKernelFrames;
    CpuClock clock;
    for (const std::shared_ptr<TickRing>& ring : rings) {
        Descriptor event = open_event(attr, tid, ring->cpu());
        if (!event.valid() && errno == EOVERFLOW) {
            attr.sample_max_stack = 0;  // kernel.perf_event_max_stack, which is less
            event = open_event(attr, tid, ring->cpu());
        }
        if (!event.valid() || ioctl(event.get(), PERF_EVENT_IOC_SET_OUTPUT, ring->descriptor()) != 0) {
            const int error = errno;
            clock.events_.clear();
            errno = error;
            return clock;
        }
        clock.events_.push_back({ring, std::move(event), first_ns});
    }
    return clock;
}

bool CpuClock::has_ticks() const {
    return std::ranges::any_of(events_, [](const Event& each) { return each.ring->has_ticks(); });
}

void CpuClock::set_period(int cpu, std::uint64_t period_ns) {
    const auto event = std::ranges::find(events_, cpu, [](const Event& each) { return each.ring->cpu(); });
    if (event != events_.end()) {
        ioctl(event->descriptor.get(), PERF_EVENT_IOC_PERIOD, &period_ns);
        event->period_ns = period_ns;
    }
}

std::uint64_t CpuClock::longest_ns(std::size_t cpus) const {
    std::vector<std::uint64_t> periods(std::min(cpus, events_.size()));
    std::ranges::partial_sort_copy(events_ | std::views::transform(&Event::period_ns), periods, std::greater{});
    return std::accumulate(periods.begin(), periods.end(), std::uint64_t{0});
}

}  // namespace weft
