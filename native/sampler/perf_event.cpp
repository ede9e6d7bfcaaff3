#include "sampler/perf_event.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

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

EventRing::EventRing(Descriptor event, std::size_t record_pages)
    : event_(std::move(event)), record_bytes_(record_pages * page_size()) {
    if (event_.valid()) {
        void* pages = mmap(nullptr, page_size() + record_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, event_.get(), 0);
        pages_ = pages == MAP_FAILED ? nullptr : pages;
    }
}

EventRing::~EventRing() {
    if (pages_ != nullptr) {
        munmap(pages_, page_size() + record_bytes_);
    }
}

bool EventRing::has_records() const {
    const auto* control = static_cast<const perf_event_mmap_page*>(pages_);
    return __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE) != control->data_tail;
}

void EventRing::take(const std::function<void(const perf_event_header&, RecordReader)>& on_record) {
    auto* control = static_cast<perf_event_mmap_page*>(pages_);
    const char* records = static_cast<const char*>(pages_) + page_size();
    const std::uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
    std::uint64_t tail = control->data_tail;
    while (tail != head) {
        const RecordReader record(records, record_bytes_, tail);
        perf_event_header header{};
        RecordReader(record).read(header);
        on_record(header, record);
        tail += header.size;
    }
    __atomic_store_n(&control->data_tail, tail, __ATOMIC_RELEASE);
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
    Descriptor event(static_cast<int>(
        syscall(SYS_perf_event_open, &attr, tid, cpu, -1, static_cast<unsigned long>(PERF_FLAG_FD_CLOEXEC))));
    if (event.valid() && !is_among_first(event, 3)) {
        event = Descriptor();
        errno = EMFILE;
    }
    return event;
}

}  // namespace weft
