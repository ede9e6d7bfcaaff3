#include "sampler/sideband.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace weft {

namespace {

constexpr std::size_t kRingPages = 64;  // a CPU; a record has some 100 bytes
// Whoever waits is woken for so many: soon after an exec, and for some of what forks and ends, since each costs an interrupt.
constexpr std::uint32_t kWakeBytes = 256;

// include/uapi/linux/perf_event.h, enum perf_event_type. Behind each there is its time (sample_id_all).
struct TaskRecord {  // PERF_RECORD_FORK, PERF_RECORD_EXIT
    perf_event_header header;
    std::uint32_t pid;
    std::uint32_t parent;
    std::uint32_t tid;
    std::uint32_t parent_tid;
    std::uint64_t time_ns;
};
struct OwnerRecord {  // how PERF_RECORD_COMM and PERF_RECORD_MMAP2 begin
    perf_event_header header;
    std::uint32_t pid;
    std::uint32_t tid;
};
constexpr std::size_t kNameBytes = 16;  // TASK_COMM_LEN

std::string read_name(RecordReader record, std::size_t size) {
    std::array<std::uint64_t, kNameBytes / sizeof(std::uint64_t)> words{};
    for (std::size_t i = 0; i < words.size() && (i + 1) * sizeof(std::uint64_t) <= size; ++i) {
        record.read(words[i]);
    }
    const auto* text = reinterpret_cast<const char*>(words.data());
    return {text, strnlen(text, kNameBytes)};
}

bool read_change(RecordReader record, const perf_event_header& header, Change& change) {
    if (header.type == PERF_RECORD_FORK || header.type == PERF_RECORD_EXIT) {
        TaskRecord task{};
        record.read(task);
        change.kind = header.type == PERF_RECORD_FORK ? Change::Kind::kFork : Change::Kind::kEnd;
        change.at_ns = task.time_ns;
        change.pid = static_cast<pid_t>(task.pid);
        change.tid = static_cast<pid_t>(task.tid);
        change.parent = static_cast<pid_t>(task.parent);
        return true;
    }
    if (header.type != PERF_RECORD_COMM && header.type != PERF_RECORD_MMAP2) {
        return false;
    }
    OwnerRecord owner{};
    RecordReader rest = record;
    rest.read(owner);
    change.pid = static_cast<pid_t>(owner.pid);
    change.tid = static_cast<pid_t>(owner.tid);
    change.kind = Change::Kind::kMapped;
    if (header.type == PERF_RECORD_COMM) {
        change.kind = (header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0 ? Change::Kind::kExec : Change::Kind::kName;
        change.name = read_name(rest, header.size - sizeof owner - sizeof change.at_ns);
    }
    record.skip(header.size - sizeof change.at_ns);
    record.read(change.at_ns);
    return true;
}

}  // namespace

Sideband::Sideband() {
    perf_event_attr attr = software_event(PERF_COUNT_SW_DUMMY);
    attr.sample_type = PERF_SAMPLE_TIME;
    attr.sample_id_all = 1;
    attr.task = 1;
    attr.comm = 1;
    attr.comm_exec = 1;
    attr.mmap = 1;
    attr.mmap2 = 1;
    attr.watermark = 1;
    attr.wakeup_watermark = kWakeBytes;
    const auto cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
    for (int cpu = 0; cpu < cpus; ++cpu) {
        Descriptor event = open_event(attr, -1, cpu);
        if (!event.valid() && errno == ENODEV) {
            continue;  // it is offline
        }
        rings_.push_back(std::make_unique<EventRing>(std::move(event), kRingPages));
        if (!rings_.back()->valid()) {
            throw std::system_error(errno, std::generic_category(), "perf events of CPUs");
        }
    }
}

std::vector<int> Sideband::descriptors() const {
    std::vector<int> descriptors;
    descriptors.reserve(rings_.size());
    for (const auto& ring : rings_) {
        descriptors.push_back(ring->descriptor());
    }
    return descriptors;
}

bool Sideband::take(std::vector<Change>& changes) {
    changes.clear();
    bool whole = true;
    for (const auto& ring : rings_) {
        ring->take([&](const perf_event_header& header, RecordReader record) {
            whole = whole && header.type != PERF_RECORD_LOST;
            if (Change change; read_change(record, header, change)) {
                changes.push_back(std::move(change));
            }
        });
    }
    std::ranges::stable_sort(changes, {}, &Change::at_ns);
    return whole;
}

}  // namespace weft
