// What a look has come to: a sample with its weight, a loss, or nothing yet.

#include <algorithm>

#include "sampler/sampler.h"

namespace weft {

namespace {

// What claims may be behind the CPU time before ticks count as missed. Claims that catch up by a sixteenth are apart by 0.8 periods
// as a rule (standard deviation) where these are of 0.5 to 1.5, and by 2.7 where they are drawn without memory (drawn_tick_ns).
constexpr std::uint64_t kOwedPeriods = 8;
constexpr std::uint64_t kOwedTicks = 16;  // besides one for each CPU
// A thread that is held for long (a stack of 100,000 frames) is left alone for so many times as long, so that it loses
// a few percent of its time at most.
constexpr std::uint64_t kLongHold = 1'000'000;  // ns
constexpr std::uint64_t kSparedHolds = 30;
constexpr std::size_t kDeepStack = 1000;  // a shallow one is read at once, but for what else the CPU had to do

}  // namespace

// The interpreter links its frames in a few instructions, in whatever order the compiler has put them; a thread that is
// stopped among them has no whole chain of frames. At the next tick it has: its time is left to that.
bool Sampler::leave_to_next_tick(SampledThread& thread, Loss loss) {
    switch (loss) {
        case Loss::kNoRegisters:
            --batch_.account.samples_wanted;
            ++batch_.account.stacks_retaken;
            return true;  // such looks are counted by themselves
        case Loss::kUnreadable:
        case Loss::kCycle:
        case Loss::kNotAFrame:
        case Loss::kNotCode:
        case Loss::kCodeGone:
        case Loss::kBetween: break;
        case Loss::kTorn:
            if (thread.clock.valid()) {
                break;
            }
            [[fallthrough]];
        default: thread.retakes.end(); return false;
    }
    if (!thread.retakes.again(monotonic_ns())) {
        return false;
    }
    --batch_.account.samples_wanted;
    ++batch_.account.stacks_retaken;
    return true;
}

// For a tick of its own clock that had not been looked at by the next one: the reader did not get the CPU.
void Sampler::come_late(SampledThread& thread) {
    ++batch_.account.samples_wanted;
    ++batch_.account.samples_late;
    lose(thread, Loss::kLate);
}

// For ticks that the wall clock or the thread's CPU account tells of; `over_ns`: what is in no other sample's weight.
void Sampler::add_late(SampledThread& thread, std::uint64_t ticks, std::uint64_t over_ns) {
    batch_.account.samples_wanted += ticks;
    batch_.account.samples_late += ticks;
    thread.process.losses.add(Loss::kLate, ticks, over_ns);
}

// When an interrupt stopped the thread is not known: the thread was told to at the earliest, and what it has not spent
// running or waiting for a CPU since its last stop is all that it can have been held for. The hold is told as what it was
// at most.
void Sampler::account_hold(SampledThread& thread, const SchedStat& stat, std::uint64_t seen_ns) {
    const std::uint64_t now_ns = monotonic_ns();
    const std::uint64_t least = now_ns - seen_ns;
    std::uint64_t most = now_ns - thread.interrupted_ns;
    if (thread.released) {
        const std::uint64_t busy =
            (stat.cpu_ns - thread.released->cpu_ns) + (stat.delay_ns - thread.released->delay_ns);
        const std::uint64_t since = now_ns - thread.released_ns;
        most = std::min(most, since - std::min(since, busy));
    }
    thread.released = stat;
    thread.released_ns = now_ns;
    thread.timeline.held(least);
    holds_.add(std::max(least, most));
    spare(thread, now_ns - seen_ns);
}

void Sampler::spare(SampledThread& thread, std::uint64_t spent_ns) {
    if (spent_ns > kLongHold && stack_.frames.size() > kDeepStack) {
        thread.spared_until_ns = monotonic_ns() + kSparedHolds * spent_ns;
    }
}

// What the look at a running thread has come to; stack_ is what it saw.
void Sampler::account_look(SampledThread& thread, const Look& look) {
    if (leave_to_next_tick(thread, look.loss)) {
        return;
    }
    if (!look.taken) {
        lose(thread, look.loss);
        return;
    }
    const std::uint32_t stack = intern(thread);
    const std::uint64_t now_ns = look.at_ns != 0 ? look.at_ns : monotonic_ns();
    if (options_.mode == Mode::kGil) {
        account_holder(thread, now_ns, stack);
    } else {
        account_running(thread, now_ns, look, stack);
    }
}

Timeline::Claim Sampler::claim(const SampledThread& thread, bool exact) const {
    if (kernel_side_) {
        // Whose tick it is, is by chance: the CPU's clock asks nobody how long he has run.
        const bool lags = !tells_switches();
        return {true, exact, 2 * period_ns_, (lags ? 5 : 2) * kOwedPeriods * period_ns_ + kSchedulerTick, lags};
    }
    if (own_clock_is_exact(thread)) {
        return {true, exact, 2 * period_ns_, (kOwedTicks + thread.clock.cpus()) * period_ns_};
    }
    return {false, exact, std::max(8 * period_ns_, kSchedulerTick), 0};
}

void Sampler::account_running(SampledThread& thread, std::uint64_t now_ns, const Look& look, std::uint32_t stack) {
    // What has been added since the last sample, and not by interrupts, or by a host that takes its CPU: these are in no account of
    // the thread, and add up to blocked time.
    const std::uint64_t unseen_ns = thread.timeline.unseen_blocked_ns(now_ns, look.stat);
    const bool blocked_unseen =
        unseen_ns > std::exchange(thread.unseen_blocked_ns, unseen_ns) + period_ns_ / 8 && !thread.ran_on;
    if (thread.timeline.standing() || blocked_unseen) {
        look_for_blocks(thread, now_ns);
    }
    const std::uint64_t over = thread.timeline.add_running(now_ns, look.stat, stack, claim(thread, !look.moving));
    if (tells_switches() && thread.process.python) {
        thread.doings.tick(now_ns, period_ns_, stack);
    }
    if (over != 0) {
        add_late(thread, (over + period_ns_ / 2) / period_ns_, over);
    }
}

void Sampler::account_holder(SampledThread& thread, std::uint64_t now_ns, std::uint32_t stack) {
    const std::uint64_t since_ns = std::exchange(thread.gil_weight_ns, 0);
    const std::uint64_t weight = std::min(since_ns, 2 * period_ns_);
    if (const std::uint64_t over = since_ns - weight; over != 0) {
        add_late(thread, (over + period_ns_ / 2) / period_ns_, over);
    }
    thread.timeline.add_holder(now_ns, weight, stack);
}

// A sample that was due and has no stack. The time that it would have stood for is counted, not given to another.
void Sampler::lose(SampledThread& thread, Loss loss) {
    std::uint64_t weight = std::exchange(thread.gil_weight_ns, 0);
    if (options_.mode != Mode::kGil) {
        SchedStat stat = kernel_sample_.stat();  // which is of this thread, where switches are told
        weight = tells_switches() || thread.files.read(stat)
                     ? thread.timeline.skip_running(monotonic_ns(), stat, claim(thread, false))
                     : 0;
    }
    thread.process.losses.add(loss, 1, weight);
}

}  // namespace weft
