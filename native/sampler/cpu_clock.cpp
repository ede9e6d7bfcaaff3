#include "sampler/cpu_clock.h"

#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sampler/perf_event.h"

namespace weft {

namespace {

constexpr std::size_t kRecordPages = 4;

std::size_t record_space() { return kRecordPages * page_size(); }
std::size_t ring_size() { return page_size() + record_space(); }

// What perf_event_open(2) writes for the sample_type below.
struct TickRecord {
    perf_event_header header;
    std::uint32_t process;
    std::uint32_t thread;
    std::uint64_t time_ns;
    RecordedRegisters registers;
};

}  // namespace

TickRing::TickRing(int cpu) : cpu_(cpu) {
    perf_event_attr attr = software_event(PERF_COUNT_SW_DUMMY);
    attr.exclude_kernel = 1;
    event_ = open_event(attr, 0, cpu);
    if (!event_.valid()) {
        return;
    }
    void* pages = mmap(nullptr, ring_size(), PROT_READ | PROT_WRITE, MAP_SHARED, event_.get(), 0);
    pages_ = pages == MAP_FAILED ? nullptr : pages;
}

TickRing::~TickRing() {
    if (pages_ != nullptr) {
        munmap(pages_, ring_size());
    }
}

void TickRing::take(std::vector<Tick>& ticks) {
    auto* control = static_cast<perf_event_mmap_page*>(pages_);
    const char* records = static_cast<const char*>(pages_) + page_size();
    const std::uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
    std::uint64_t tail = control->data_tail;
    while (tail != head) {
        // A record may go on at the ring's beginning.
        TickRecord record{};
        auto* bytes = reinterpret_cast<char*>(&record);
        const auto copy = [&](std::size_t from, std::size_t to) {
            for (std::size_t i = from; i < to; ++i) {
                bytes[i] = records[(tail + i) % record_space()];
            }
        };
        copy(0, sizeof record.header);
        if (record.header.type == PERF_RECORD_SAMPLE && record.header.size == sizeof record) {
            copy(sizeof record.header, sizeof record);
            Tick& tick = ticks.emplace_back();
            tick.tid = static_cast<pid_t>(record.thread);
            tick.time_ns = record.time_ns;
            tick.registers = record.registers.all();
        }
        tail += record.header.size;
    }
    __atomic_store_n(&control->data_tail, tail, __ATOMIC_RELEASE);
}

CpuClock CpuClock::open(pid_t tid, std::uint64_t first_ns, bool user_only,
                        const std::vector<std::shared_ptr<TickRing>>& rings) {
    perf_event_attr attr = software_event(PERF_COUNT_SW_TASK_CLOCK);
    attr.sample_period = first_ns;
    attr.wakeup_events = 1;
    attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER;
    attr.sample_regs_user = kRecordedMask;
    attr.exclude_kernel = user_only ? 1 : 0;
    CpuClock clock;
    for (const std::shared_ptr<TickRing>& ring : rings) {
        Descriptor event = open_event(attr, tid, ring->cpu());
        if (!event.valid() || ioctl(event.get(), PERF_EVENT_IOC_SET_OUTPUT, ring->descriptor()) != 0) {
            const int error = errno;
            clock.events_.clear();
            errno = error;
            return clock;
        }
        clock.events_.push_back({ring, std::move(event)});
    }
    return clock;
}

CpuClock::Event* CpuClock::event_on(int cpu) {
    const auto event = std::ranges::find(events_, cpu, [](const Event& each) { return each.ring->cpu(); });
    return event == events_.end() ? nullptr : &*event;
}

std::uint64_t CpuClock::count_tick(int cpu) {
    Event* event = event_on(cpu);
    return event == nullptr ? 0 : ++event->ticks;
}

void CpuClock::set_period(int cpu, std::uint64_t period_ns) {
    if (const Event* event = event_on(cpu)) {
        ioctl(event->descriptor.get(), PERF_EVENT_IOC_PERIOD, &period_ns);
    }
}

}  // namespace weft
