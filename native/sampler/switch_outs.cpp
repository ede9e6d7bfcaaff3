#include "sampler/switch_outs.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "sampler/perf_event.h"

namespace weft {

namespace {

struct SwitchRecord {
    perf_event_header header;
    RecordedRegisters registers;
};

std::size_t ring_size() { return 2 * page_size(); }

}  // namespace

SwitchOuts::SwitchOuts(pid_t tid) {
    perf_event_attr attr = software_event(PERF_COUNT_SW_CONTEXT_SWITCHES);
    attr.sample_period = 1;
    attr.sample_type = PERF_SAMPLE_REGS_USER;
    attr.sample_regs_user = kRecordedMask;
    attr.write_backward = 1;  // with a ring that is mapped to be read only: new records replace the oldest
    event_ = open_event(attr, tid, -1);
    if (!event_.valid()) {
        return;
    }
    void* pages = mmap(nullptr, ring_size(), PROT_READ, MAP_SHARED, event_.get(), 0);
    pages_ = pages == MAP_FAILED ? nullptr : pages;
}

SwitchOuts::~SwitchOuts() {
    if (pages_ != nullptr) {
        munmap(pages_, ring_size());
    }
}

SwitchOuts::SwitchOuts(SwitchOuts&& other) noexcept
    : event_(std::move(other.event_)), pages_(std::exchange(other.pages_, nullptr)) {}

SwitchOuts& SwitchOuts::operator=(SwitchOuts&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(pages_, other.pages_);
    return *this;
}

std::optional<RegisterSet> SwitchOuts::last() const {
    // The ring is written from its end to its beginning, and over again; the head is at the newest record.
    const auto* control = static_cast<const perf_event_mmap_page*>(pages_);
    const char* records = static_cast<const char*>(pages_) + page_size();
    const std::uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
    SwitchRecord record{};
    RecordReader(records, page_size(), head).read(record);
    if (record.header.type != PERF_RECORD_SAMPLE || record.header.size != sizeof record) {
        return std::nullopt;
    }
    return record.registers.all();
}

}  // namespace weft
