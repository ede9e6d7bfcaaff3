// Samples that the kernel has taken: collector bpf.

#include "sampler/kernel_process.h"
#include "sampler/sampler.h"

namespace weft {

// What its walk has to know of a process, as far as that is known now.
void Sampler::tell_kernel(SampledProcess& process) {
    if (!kernel_side_ || process.launching) {
        return;
    }
    weft_process told =
        kernel_process(process.code, process.python ? &process.place : nullptr, options_.native, tells_switches());
    if (!kernel_side_->tell(process.pid, told)) {
        process.losses.add(Loss::kNoRoom, 1, 0);
    }
}

void Sampler::take_kernel_samples() {
    if (!kernel_side_) {
        return;
    }
    kernel_side_->take([this](std::span<const std::byte> record) {
        if (const std::optional<weft_return> told = return_of(record)) {
            if (const auto found = by_tid_.find(static_cast<pid_t>(told->tid)); found != by_tid_.end()) {
                ++batch_.account.stays;
                take_return(*found->second, *told);
            }
            return;
        }
        SampledThread* thread = kernel_sample_.parse(record) ? thread_of_kernel_sample() : nullptr;
        if (thread == nullptr) {
            ++batch_.account.samples_dropped;  // it has ended before anybody knew of it
        } else if (thread->process.launching) {
            return;
        } else if (kernel_sample_.head().record == WEFT_OUT) {
            take_leaving(*thread);
        } else {
            take_kernel_sample(*thread);
        }
    });
}

// The thread that kernel_sample_ is of; null: it is gone.
SampledThread* Sampler::thread_of_kernel_sample() {
    const auto tid = static_cast<pid_t>(kernel_sample_.head().tid);
    if (const auto found = by_tid_.find(tid); found != by_tid_.end()) {
        return found->second;
    }
    SampledProcess* process = find_process(static_cast<pid_t>(kernel_sample_.head().pid));
    return process == nullptr ? nullptr : add_thread(*process, tid, SampledThread::Trace::kNot);
}

// kernel_sample_, which is of this thread.
void Sampler::take_kernel_sample(SampledThread& thread) {
    const weft_sample& head = kernel_sample_.head();
    check_later(thread, monotonic_ns() + kRingPauseNs);  // what has come since its sample is not known before that
    if (!is_due(thread, head.time_ns)) {
        return;
    }
    if (thread.off_cpu.away()) {
        thread.off_cpu.is_not_there();  // where it was read; it did not stay there for long
        thread.timeline.stand_no_more();
    }
    const ThreadPosition position{head.thread_pointer, kernel_sample_.registers()};
    Look look = look_at(thread, position, stack_, &kernel_sample_);
    look.stat = kernel_sample_.stat();
    note_kernel(kernel_sample_.kernel());
    look.at_ns = head.time_ns;
    holds_.add(head.walk_ns);
    batch_.account.stacks_in_kernel += look.taken ? 1 : 0;
    account_look(thread, look);
}

}  // namespace weft
