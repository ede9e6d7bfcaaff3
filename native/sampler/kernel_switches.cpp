// Threads that leave their CPU and come back, as the kernel tells of them: collector bpf, mode wall.

#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include "sampler/sampler.h"
#include "sampler/waits.h"

namespace weft {

namespace {

constexpr std::uint32_t kUninterruptible = 2;  // TASK_UNINTERRUPTIBLE (include/linux/sched.h)

}  // namespace

std::optional<weft_return> Sampler::return_of(std::span<const std::byte> record) {
    weft_return told{};
    if (record.size() < sizeof told) {
        return std::nullopt;
    }
    std::memcpy(&told, record.data(), sizeof told);
    return told.record == WEFT_IN || told.record == WEFT_END ? std::optional(told) : std::nullopt;
}

// kernel_sample_ is of a thread that leaves its CPU.
void Sampler::take_leaving(SampledThread& thread) {
    const weft_sample& head = kernel_sample_.head();
    ++batch_.account.samples_wanted;
    Away away;
    away.seen_ns = head.time_ns;
    if (behind()) {
        learn_codes(thread.process);
        away.loss = Loss::kBehind;
        thread.off_cpu.leave(away);
        return;
    }
    const Look look = look_at(thread, {head.thread_pointer, kernel_sample_.registers()}, stack_, &kernel_sample_);
    kernel_hidden_ = hides_kernel();
    note_kernel(kernel_sample_.kernel());
    holds_.add(head.walk_ns);
    if (leave_to_next_tick(thread, look.loss)) {
        thread.off_cpu.is_not_there();
        return;
    }
    if (!look.taken) {
        away.loss = look.loss;
        thread.off_cpu.leave(away);
        return;
    }
    ++batch_.account.stacks_in_kernel;
    away.state = state_of_leaving(thread, away.gil_holder);
    away.stack = intern(thread);
    thread.off_cpu.leave(away);
    thread.timeline.stand({away.stack, away.state, away.seen_ns, away.seen_ns});
}

State Sampler::state_of_leaving(const SampledThread& thread, Address& gil_holder) {
    const weft_sample& head = kernel_sample_.head();
    if (head.why == 0) {
        return State::kRunnable;
    }
    const RegisterSet registers = kernel_sample_.registers();
    const Wait wait{head.system_call, registers.get(Register::kRdi), registers.get(Register::kRsi),
                    (head.why & kUninterruptible) != 0};
    SampledProcess& process = thread.process;
    if (wait.system_call == SYS_futex && process.python && process.python->is_gil(wait.first_argument)) {
        SampleMemory then(kernel_sample_, process.code, process.memory);
        gil_holder = process.python->gil_holder(then, wait.first_argument);
        return State::kGil;
    }
    return state_of(wait);
}

void Sampler::take_return(SampledThread& thread, const weft_return& told) {
    if (told.times.began_ns < thread.account_ns) {
        return;  // of the program that it was before its exec
    }
    thread.account_ns = told.times.began_ns;
    const auto give = [&](const Stay& stay, std::uint64_t blocked_ns, std::uint64_t ready_ns) {
        give_stay(thread, stay, blocked_ns, ready_ns);
    };
    const OffCpu::Missing missing = thread.off_cpu.come_back(told, give);
    thread.timeline.stand_no_more();
    thread.blocked.reset();
    thread.told = told;
    Losses& losses = thread.process.losses;
    losses.add(Loss::kRingFull, missing.lost, missing.lost_ns);
    losses.add(Loss::kUnseen, missing.unseen_ns != 0 ? 1 : 0, missing.unseen_ns);
}

void Sampler::give_stay(SampledThread& thread, const Stay& stay, std::uint64_t blocked_ns, std::uint64_t ready_ns) {
    const Away& away = stay.away;
    if (away.loss != Loss::kNone) {
        thread.process.losses.add(away.loss, 1, blocked_ns + ready_ns);
        return;
    }
    thread.timeline.add_away(stay.woken_ns, blocked_ns, away.state, away.stack);
    thread.timeline.add_away(stay.back_ns, ready_ns, State::kRunnable, away.stack);
    if (thread.process.python) {
        thread.doings.stay(stay.left_ns, stay.back_ns, away.stack);
    }
    if (away.state == State::kGil) {
        blame(thread, stay, blocked_ns);
    }
}

void Sampler::blame(SampledThread& thread, const Stay& stay, std::uint64_t weight_ns) {
    const SampledProcess& process = thread.process;
    const Address pthread = stay.away.gil_holder;
    const auto found = std::ranges::find_if(process.threads, [&](const auto& entry) {
        return pthread != 0 && process.python->is(entry.second->python, pthread);
    });
    if (found == process.threads.end()) {
        gil_blame_.add(thread.id, stay.away.stack, 0, weight_ns, {});
        return;
    }
    const SampledThread& holder = *found->second;
    std::map<std::uint32_t, std::uint64_t> doings = holder.doings.within(stay.left_ns, stay.woken_ns);
    if (const std::optional<Away>& away = holder.off_cpu.away(); away && away->loss == Loss::kNone) {
        const std::uint64_t begin_ns = std::max(stay.left_ns, away->seen_ns);
        doings[away->stack] += stay.woken_ns - std::min(stay.woken_ns, begin_ns);
    }
    gil_blame_.add(thread.id, stay.away.stack, holder.id, weight_ns, doings);
}

// A thread that was blocked when we came, or whose stack was not told: it was read from outside, and is there still.
void Sampler::was_read_away(SampledThread& thread, const Away& away) {
    thread.off_cpu.leave(away);
    thread.timeline.stand({away.stack, away.state, away.seen_ns, away.seen_ns});
}

// Stays that no stack was taken of are shared out, and told.
void Sampler::share_stays(SampledThread& thread) {
    thread.off_cpu.share([&](const Stay& stay, std::uint64_t blocked_ns, std::uint64_t ready_ns) {
        give_stay(thread, stay, blocked_ns, ready_ns);
    });
}

// The thread ends, or the recording. Returns the time that is in no sample and no stay.
std::uint64_t Sampler::end_told_thread(SampledThread& thread, std::uint64_t now_ns) {
    if (!kernel_side_) {
        return 0;
    }
    KernelSide& kernel_side = *kernel_side_;
    // It may be away: so far, that is a stay too.
    if (const std::optional<weft_thread> known = kernel_side.thread(thread.tid); known && known->since_ns < now_ns) {
        weft_return last{};
        last.record = WEFT_IN;
        last.every = known->every;
        last.left_ns = known->since_ns;
        last.time_ns = last.woken_ns = now_ns;
        last.times = known->times;
        if (known->place == WEFT_ON_CPU) {
            last.record = WEFT_END;
            last.times.ran_ns += now_ns - known->since_ns;
        } else {
            if (known->woken_ns > known->since_ns) {
                last.woken_ns = std::min(known->woken_ns, now_ns);
            }
            last.times.blocked_ns += last.woken_ns - last.left_ns;
            last.times.ready_ns += last.time_ns - last.woken_ns;
        }
        take_return(thread, last);
    }
    kernel_side.forget_thread(thread.tid);
    share_stays(thread);
    batch_.account.stays_estimated += thread.off_cpu.untold();
    return thread.timeline.end_told(now_ns, thread.told.times.ran_ns) + thread.off_cpu.rest_ns();
}

}  // namespace weft
