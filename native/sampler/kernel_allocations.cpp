// Threads that ask for memory, as the kernel tells of them: collector bpf, mode alloc.

#include "sampler/allocation.h"
#include "sampler/sampler.h"

namespace weft {

// kernel_sample_, which is of this thread. No other sample can take its place.
void Sampler::take_allocation(SampledThread& thread) {
    const weft_sample& head = kernel_sample_.head();
    const Allocations meant = stands_for(head.asked_for);
    ++batch_.account.samples_wanted;
    Look look;
    if (behind()) {
        learn_codes(thread.process);
        look.loss = Loss::kBehind;
    } else {
        look = look_at(thread, {head.thread_pointer, kernel_sample_.registers()}, stack_, &kernel_sample_);
        remember_state(thread);
    }
    holds_.add(head.walk_ns);
    if (!look.taken) {
        thread.process.losses.add(look.loss, 1, static_cast<std::uint64_t>(meant.bytes));
        return;
    }
    ++batch_.account.stacks_in_kernel;
    thread.timeline.add_allocation(head.time_ns, meant.bytes, meant.calls, intern(thread));
}

}  // namespace weft
