// Samples that the kernel has taken: collector bpf.

#include <algorithm>

#include "sampler/kernel_process.h"
#include "sampler/sampler.h"

namespace weft {

// What its walk has to know of a process, as far as that is known now.
void Sampler::tell_kernel(SampledProcess& process) {
    if (!kernel_side_ || process.launching) {
        return;
    }
    weft_process told = kernel_process(process.code, process.python ? &process.place : nullptr, options_.native);
    if (!kernel_side_->tell(process.pid, told)) {
        process.losses.add(Loss::kNoRoom, 1, 0);
    }
}

void Sampler::take_kernel_samples() {
    if (!kernel_side_) {
        return;
    }
    kernel_side_->take([this](std::span<const std::byte> record) {
        SampledThread* thread = kernel_sample_.parse(record) ? thread_of_kernel_sample() : nullptr;
        if (thread == nullptr) {
            ++batch_.account.samples_dropped;  // it has ended before anybody knew of it
        } else if (!thread->process.launching) {
            take_kernel_sample(*thread);
        }
        kernel_side_->count_tick(kernel_sample_.head().cpu);
    });
    // The clock begins anew each time: what has
    // passed of a period is lost, half of one as a rule.
    kernel_side_->draw_periods([this] { return drawn_period_ns() * 16 / 17; });
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
    const ThreadPosition position{head.thread_pointer, kernel_sample_.registers()};
    Look look = look_at(thread, position, stack_, &kernel_sample_);
    look.stat = kernel_sample_.stat();
    // The kernel looks at the first of many threads only.
    const auto state = std::ranges::find_if(thread.python.states, [&](const ThreadState& each) {
        return each.interpreter_id == 0 && each.pthread == head.thread_pointer;
    });
    if (state != thread.python.states.end() && state->address != head.thread_state) {
        kernel_side_->remember_state(thread.tid, state->address);
    }
    note_kernel(kernel_sample_.kernel());
    look.at_ns = head.time_ns;
    holds_.add(head.walk_ns);
    batch_.account.stacks_in_kernel += look.taken ? 1 : 0;
    account_look(thread, look);
}

}  // namespace weft
