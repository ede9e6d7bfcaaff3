// A thread that is blocked: its stack is read without a stop.

#include <sys/syscall.h>

#include "sampler/sampler.h"
#include "sampler/waits.h"

namespace weft {

namespace {

constexpr std::uint64_t kSeldom = 2'000'000;  // ns between switches

}  // namespace

// Whether it would feel what a record costs at each switch: some microseconds.
bool Sampler::switches_often(const SampledThread& thread, const Stillness& now) {
    return thread.rested && (now.switches - thread.rested->switches) * kSeldom > now.at_ns - thread.rested->at_ns;
}

// Of a blocked thread: all, if they were recorded, or the two that the kernel tells.
RegisterSet Sampler::registers_at_rest(const SampledThread& thread, const ThreadActivity& activity) {
    RegisterSet told;
    if (activity.pc == 0) {
        return told;  // it is in exec(2), or ends, and has no user mode to go back to
    }
    told.set(Register::kRsp, activity.stack_pointer);
    told.set(Register::kReturn, activity.pc);
    const auto recorded = thread.switch_outs && thread.switch_outs->valid() ? thread.switch_outs->last() : std::nullopt;
    const auto same = [&](Register number) { return recorded->get(number) == told.get(number); };
    return recorded && same(Register::kRsp) && same(Register::kReturn) ? *recorded : told;
}

void Sampler::take_still(SampledThread& thread, const SchedStat& before, const ThreadActivity& activity) {
    const std::uint64_t now_ns = monotonic_ns();
    if (options_.mode == Mode::kCpu) {
        thread.blocked = before;
        thread.blocked_ns = now_ns;
        return;
    }
    Look look = look_at(thread, {0, registers_at_rest(thread, activity)}, stack_);
    if (options_.native) {
        kernel_hidden_ = !thread.files.read_kernel_stack(kernel_functions_);
        note_kernel(kernel_functions_);
    }
    SampledProcess& process = thread.process;
    const bool in_gil =
        activity.syscall == SYS_futex && process.python && process.python->is_gil(activity.first_argument);
    const Address gil_holder =
        in_gil && tells_switches() ? process.python->gil_holder(process.memory, activity.first_argument) : 0;
    // Between `before` and now the thread was seen blocked. If it has not been switched in meanwhile it has not run since
    // it was seen, and the stack that was read is the one that it is blocked in.
    if (!thread.files.read(look.stat) || look.stat.switches != before.switches) {
        return;  // it has moved, and will be due again: its time is not lost, only told later
    }
    ++batch_.account.samples_wanted;
    if (leave_to_next_tick(thread, look.loss)) {
        return;
    }
    if (!look.taken) {
        if (!tells_switches()) {
            lose(thread, look.loss);
        }
        return;
    }
    if (switches_often(thread, {now_ns, look.stat.switches})) {
        thread.switch_outs.reset();
    } else if (options_.native && native_.loss == Loss::kNoRegisters && !thread.switch_outs) {
        thread.switch_outs.emplace(thread.tid);  // for the next time
    }
    thread.code_lacked = options_.native && native_.loss == Loss::kNoUnwind && (!late_ || late_->is_cut());
    thread.blocked = look.stat;
    thread.blocked_ns = now_ns;
    thread.still = thread.rested = Stillness{now_ns, look.stat.switches};
    ++batch_.account.stacks_still;
    const std::uint32_t stack = intern(thread);
    if (options_.mode == Mode::kGil) {
        account_holder(thread, now_ns, stack);
        return;
    }
    const State state =
        in_gil ? State::kGil : state_of({activity.syscall, activity.first_argument, activity.second_argument});
    if (tells_switches()) {
        was_read_away(thread, {stack, state, Loss::kNone, now_ns, true, gil_holder});
    } else {
        thread.timeline.add_blocked(now_ns, look.stat, stack, state);
    }
}

}  // namespace weft
