// What the kernel tells of processes and threads, for collector bpf.

#include <cerrno>
#include <csignal>
#include <utility>

#include "sampler/sampler.h"

namespace weft {

// Samples and changes come by ways of their own, and are taken in the order of their times.
void Sampler::take_kernel_samples() {
    if (!kernel_side_) {
        return;
    }
    ++ring_looks_;
    // Of threads that end, the kernel tells the last switch behind their end.
    const std::vector<pid_t> ended = std::exchange(ended_, {});
    // What has changed before the last of these samples is told by now.
    const std::uint64_t end = kernel_side_->ring().end();
    if (!sideband_->take(changes_)) {
        scan_all();
    }
    // In mode alloc children are to be probed at once.
    look_soon_ = options_.mode == Mode::kAlloc || (follows_others() && !changes_.empty());
    auto next = changes_.cbegin();
    kernel_side_->ring().take(end, [&](std::span<const std::byte> record) { take_record(record, next); });
    for (; next != changes_.end(); ++next) {
        take_change(*next);
    }
    for (const pid_t tid : ended) {
        if (const auto found = by_tid_.find(tid); found != by_tid_.end()) {
            end_thread(*found->second);
        }
    }
    std::erase_if(ended_processes_, [this](const auto& told) {
        const auto [pid, look] = told;
        if (look != ring_looks_) {
            take_end_of_process(pid);
        }
        return look != ring_looks_;
    });
    kernel_side_->clocks().draw(monotonic_ns(), period_ns_, [this] { return drawn_factor(); });
}

// A record of the ring; and the changes that came before it, from `next` on.
void Sampler::take_record(std::span<const std::byte> record, std::vector<Change>::const_iterator& next) {
    if (const std::optional<weft_return> told = return_of(record)) {
        if (const auto found = by_tid_.find(static_cast<pid_t>(told->tid)); found != by_tid_.end()) {
            batch_.account.stays += told->record == WEFT_IN && told->every != 0 ? 1 : 0;
            take_return(*found->second, *told);
        } else if (told->record == WEFT_END) {
            take_end_of_unknown(*told);
        }
        return;
    }
    if (!kernel_sample_.parse(record)) {
        ++batch_.account.samples_dropped;
        return;
    }
    look_soon_ = look_soon_ || kernel_sample_.leaves_to_read();
    if (kernel_sample_.head().record == WEFT_TICK) {
        kernel_side_->clocks().note_tick(kernel_sample_.head().cpu);
    }
    for (; next != changes_.end() && next->at_ns <= kernel_sample_.head().time_ns; ++next) {
        take_change(*next);
    }
    deliver_kernel_sample();
}

// A thread has ended before anybody has looked at it: its time is lost. Who knows nothing of its process does not know whether it
// was to be recorded.
void Sampler::take_end_of_unknown(const weft_return& told) {
    if (SampledProcess* process = find_process(static_cast<pid_t>(told.pid)); process != nullptr) {
        process->losses.add(Loss::kExited, 1, told.times.ran_ns + told.times.ready_ns + told.times.blocked_ns);
    } else {
        ++batch_.account.samples_dropped;
    }
}

void Sampler::take_change(const Change& change) {
    SampledProcess* process = find_process(change.pid);
    look_soon_ = look_soon_ || process != nullptr;
    const auto thread = by_tid_.find(change.tid);
    switch (change.kind) {
        case Change::Kind::kFork: take_fork(change, process); break;
        case Change::Kind::kExec:
            if (process != nullptr) {
                replaced_by_exec(*process, SampledThread::Trace::kNot);
            } else if (options_.machine) {
                kernel_side_->forget(change.pid);
                if (const auto child = children_.find(change.pid); child != children_.end()) {
                    child->second.exec_ns = monotonic_ns();
                }
            }
            break;
        case Change::Kind::kName:
            if (thread != by_tid_.end() && thread->second->name != change.name) {
                thread->second->name = change.name;
                tell(*thread->second, Event::Kind::kThreadName);
            } else if (process == nullptr && options_.machine && !options_.machine->name.empty()) {
                kernel_side_->forget(change.pid);  // the filter is asked again
            }
            break;
        case Change::Kind::kEnd:
            if (change.tid == change.pid) {
                ended_processes_[change.pid] = ring_looks_;
            } else if (thread != by_tid_.end()) {
                ended_.push_back(change.tid);
            }
            break;
        case Change::Kind::kMapped:
            if (process != nullptr) {
                process->has_mapped = true;
                publish_soon();
            }
            break;
    }
}

// What its last thread does on its way out may be sampled behind what told of its end.
void Sampler::take_end_of_process(pid_t pid) {
    if (SampledProcess* process = find_process(pid); process == nullptr && options_.machine) {
        kernel_side_->forget(pid);
        children_.erase(pid);
    } else if (process != nullptr && !process->pid_descriptor.valid()) {
        end_process(*process, -1);  // it was gone when it was met; of others the pidfd tells
    }
}

void Sampler::take_fork(const Change& change, SampledProcess* process) {
    if (ended_processes_.erase(change.pid) != 0) {
        take_end_of_process(change.pid);  // whose number it has
        process = find_process(change.pid);
    }
    if (const auto before = by_tid_.find(change.tid); before != by_tid_.end() && std::erase(ended_, change.tid) != 0) {
        end_thread(*before->second);  // whose number it has
    }
    if (change.pid == change.parent) {
        if (process != nullptr && (!options_.machine || tells_switches())) {
            add_thread(*process, change.tid, SampledThread::Trace::kNot);
        }
        return;
    }
    SampledProcess* parent = find_process(change.parent);
    if (process != nullptr || parent == nullptr) {
        return;
    }
    if (options_.machine) {
        // Most children of a machine end, or become another program, before they are ever sampled.
        children_[change.pid] = {parent->id, 0};
        tell_kernel(*parent, change.pid);
    } else if (options_.follow_processes) {
        add_thread(add_child(change.pid, parent), change.pid, SampledThread::Trace::kNot);
    }
}

// Some of what the kernel had to tell is lost.
void Sampler::scan_all() {
    ++batch_.account.changes_lost;
    // They may have become other programs, or have ended.
    for (const auto& [pid, child] : std::exchange(children_, {})) {
        kernel_side_->forget(pid);
    }
    for (const auto& [id, process] : processes_) {
        if (!process->pid_descriptor.valid() && kill(process->pid, 0) < 0 && errno == ESRCH) {
            ended_processes_[process->pid] = ring_looks_;
        }
    }
    for (const auto& [id, process] : processes_) {
        process->next_scan_ns = 0;
        process->scan_children_until_ns = options_.follow_processes ? kNever : 0;
        process->has_mapped = true;
    }
    scan_processes(monotonic_ns());
    for (const auto& [id, process] : processes_) {
        process->scan_children_until_ns = 0;
    }
}

}  // namespace weft
