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

// What perf_event_open(2) writes for the sample_type below: this,
struct TickHead {
    perf_event_header header;
    std::uint32_t process;
    std::uint32_t thread;
    std::uint64_t time_ns;
    std::uint64_t addresses;
};
// so many addresses of the kernel's stack, and RecordedRegisters.

bool read_tick(RecordReader record, Tick& tick) {
    TickHead head{};
    record.read(head);
    const std::size_t fixed = sizeof(TickHead) + sizeof(RecordedRegisters);
    if (head.header.type != PERF_RECORD_SAMPLE || head.header.size < fixed ||
        head.addresses != (head.header.size - fixed) / sizeof(Address)) {
        return false;
    }
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
    return true;
}

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
        const RecordReader record(records, record_space(), tail);
        if (!read_tick(record, ticks.emplace_back())) {
            ticks.pop_back();
        }
        perf_event_header header{};
        RecordReader(record).read(header);
        tail += header.size;
    }
    __atomic_store_n(&control->data_tail, tail, __ATOMIC_RELEASE);
}

CpuClock CpuClock::open(pid_t tid, std::uint64_t first_ns, Ticks ticks,
                        const std::vector<std::shared_ptr<TickRing>>& rings) {
    perf_event_attr attr = software_event(PERF_COUNT_SW_TASK_CLOCK);
    attr.sample_period = first_ns;
    attr.wakeup_events = 1;
    attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER;
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
        clock.events_.push_back({ring, std::move(event)});
    }
    return clock;
}

void CpuClock::set_period(int cpu, std::uint64_t period_ns) {
    const auto event = std::ranges::find(events_, cpu, [](const Event& each) { return each.ring->cpu(); });
    if (event != events_.end()) {
        ioctl(event->descriptor.get(), PERF_EVENT_IOC_PERIOD, &period_ns);
    }
}

}  // namespace weft
