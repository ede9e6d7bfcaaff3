// One sample: stop or no stop, read, account.

#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>

#include "sampler/sampler.h"

namespace weft {

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kAgain = 1000 * kMillisecond;  // before a thread that is denied to us is tried again
constexpr int kMaxRetakes = 5;
constexpr std::uint64_t kTicksPerPeriod = 64;  // the period is drawn anew every so many ticks
constexpr int kMovingLooks = 6;
constexpr int kWaitingLooks = 3;
constexpr std::uint64_t kOwedPeriods = 8;
constexpr std::uint64_t kWakeUp = 100'000;  // ns from a tick to its reader, when nothing is in the way
constexpr std::uint64_t kBlocksPeriods = 100;
constexpr std::uint64_t kSeldom = 2 * kMillisecond;  // between switches
// A thread that is held for long (a stack of 100,000 frames) is left alone for so many times as long, so that it loses
// a few percent of its time at most.
constexpr std::uint64_t kLongHold = kMillisecond;
constexpr std::uint64_t kSparedHolds = 30;
constexpr std::size_t kDeepStack = 1000;  // a shallow one is read at once, but for what else the CPU had to do

// The kernel lets go of the CPU when it will, but a real-time reader has it before the thread's next instruction in user
// mode, whose registers are what they were when it entered the kernel.
bool is_same_entry(const Tick& tick) {
    return tick.kernel.count != 0 && (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
}

}  // namespace

// Whether a sample of a thread that runs is to be taken.
bool Sampler::is_due(SampledThread& thread, std::uint64_t now_ns) {
    ++batch_.account.samples_wanted;
    if (behind()) {
        lose(thread, Loss::kBehind);
        return false;
    }
    if (now_ns < thread.spared_until_ns) {
        lose(thread, Loss::kSpared);
        return false;
    }
    return true;
}

// A tick of the thread's own clock, on the reader of the CPU that it fell on: the thread waits for that CPU.
void Sampler::sample_at_tick(SampledThread& thread, int cpu, const Tick& tick, const Wake& wake) {
    // The first period was another one (open_clock). A change begins the period anew, so not at every tick.
    if (thread.clock.count_tick(cpu) % kTicksPerPeriod == 1) {
        thread.clock.set_period(cpu, jittered(period_ns_));
    }
    check_later(thread, tick.time_ns);
    if (!is_due(thread, tick.time_ns)) {
        return;
    }
    const Look look = look_at_waiting(thread, cpu, tick, wake);
    if (look.stat.cpu_ns != 0) {
        thread.ticked_cpu_ns = look.stat.cpu_ns;
    }
    if (look.held_ns != 0) {
        holds_.add(look.held_ns);
        spare(thread, look.held_ns);
    }
    account_look(thread, look);
}

// For a tick of its own clock that had not been looked at by the next one: the reader did not get the CPU.
void Sampler::come_late(SampledThread& thread) {
    ++batch_.account.samples_wanted;
    ++batch_.account.samples_late;
    lose(thread, Loss::kLate);
}

// The stack counts if the thread provably is on no CPU from before it is read until after. While the reader has to wait for
// a page or for the thread's mmap lock, the thread goes on; then it is read again.
Sampler::Look Sampler::look_at_waiting(SampledThread& thread, int cpu, const Tick& tick, const Wake& wake) {
    Look look;
    for (int i = 0; i < kWaitingLooks; ++i) {
        const std::uint64_t begin_ns = monotonic_ns();
        SchedStat before;
        if (!thread.files.read(before)) {
            look.loss = Loss::kExited;
            return look;
        }
        look.stat = before;
        look.loss = Loss::kTorn;
        if (sched_getcpu() != cpu) {
            return look;  // the kernel has taken this CPU away (hotplug)
        }
        // Known not to have been on a CPU at some time, and switched in once since then: that was for this tick, on this
        // CPU, which is ours now. Else it must be this CPU's; then it is not on it, since we are.
        const bool once =
            thread.still && tick.time_ns > thread.still->at_ns && before.switches == thread.still->switches + 1;
        if (!once && thread.files.cpu() != cpu) {
            return look;
        }
        // If this reader has had the CPU since the tick, the thread has not moved since, and its registers are the tick's.
        const bool in_time = begin_ns - std::min(begin_ns, tick.time_ns) < kWakeUp;
        const bool at_tick = i == 0 && (in_time || is_same_entry(tick)) && wake.by(tick);
        Look seen = look_at(thread, {0, at_tick ? tick.registers : RegisterSet{}}, stack_);
        if (thread.files.read(seen.stat) && seen.stat.switches == before.switches) {
            thread.still = Stillness{monotonic_ns(), seen.stat.switches};
            seen.held_ns = thread.still->at_ns - (at_tick ? tick.time_ns : begin_ns);
            if (options_.native && !at_tick && thread.blind_looks < kMaxRetakes) {
                ++thread.blind_looks;
                look.stat = seen.stat;
                look.loss = Loss::kNoRegisters;  // the next tick will tell them
                return look;
            }
            thread.blind_looks = 0;
            if (at_tick) {
                note_kernel(tick.kernel);
            }
            ++batch_.account.stacks_waiting;
            return seen;
        }
    }
    return look;
}

void Sampler::sample_running(SampledThread& thread, std::uint64_t now_ns) {
    check_later(thread, now_ns);
    if (!is_due(thread, now_ns)) {
        return;
    }
    if (options_.stop_threads && thread.trace == SampledThread::Trace::kNot && !seize_late(thread, now_ns)) {
        return;
    }
    if (!options_.stop_threads || thread.clock.valid()) {
        // Its own clock is new, or has not ticked because the thread is where that does not tick: in the kernel. A stop
        // would interrupt its system call.
        take_moving(thread);
    } else {
        interrupt(thread);
    }
}

// A thread that could not be had when it was found: another tracer held it. False: it still is not ours.
bool Sampler::seize_late(SampledThread& thread, std::uint64_t now_ns) {
    const tracer::Result seized = tracer::seize(thread.tid, options_.follow_processes);
    if (seized != tracer::Result::kOk) {
        thread.next_check_ns = now_ns + kAgain;
        lose(thread, seized == tracer::Result::kGone ? Loss::kExited : Loss::kTraced);
        return false;
    }
    thread.trace = SampledThread::Trace::kRunning;
    give_clock(thread);
    return true;
}

void Sampler::interrupt(SampledThread& thread) {
    thread.interrupted_ns = monotonic_ns();
    if (tracer::interrupt(thread.tid) != tracer::Result::kOk) {
        lose(thread, Loss::kExited);
        return;
    }
    thread.trace = SampledThread::Trace::kInterrupted;
    // It reports when it has stopped, in some microseconds or, if it has to wait for a CPU (or for a disk, or for its
    // vfork child), when it can. The others are not kept waiting for it.
}

// Reads the stack of a thread that does not run, or that is read at its own risk.
Sampler::Look Sampler::look_at(SampledThread& thread, const ThreadPosition& position, PythonStack& stack) {
    SampledProcess& process = thread.process;
    Look look;
    stack.clear();
    kernel_.clear();
    kernel_hidden_ = false;
    if (process.python_state == SampledProcess::Python::kUnknown) {
        look.loss = Loss::kNoRuntime;
        return look;
    }
    process.memory.read_through(thread.tid);
    if (process.python) {
        static_cast<void>(process.python->look(process.memory, thread.python, position, stack));
    }
    weave(thread, position.registers);
    // A stack of which nothing could be read is no stack; the rest is kept and marked.
    look.taken = stack.loss == Loss::kNone || !stack.frames.empty();
    look.loss = stack.loss;
    return look;
}

Sampler::Look Sampler::look_at_stopped(SampledThread& thread) {
    ++batch_.account.stops;
    Look look;
    tracer::Registers registers;
    SchedStat stat;
    if (!thread.files.read(stat) || !tracer::registers(thread.tid, registers)) {
        look.loss = Loss::kExited;
        return look;
    }
    if (registers.interrupted_syscall) {
        ++batch_.account.syscalls_interrupted;
        tracer::restart_syscall(thread.tid);
    }
    look = look_at(thread, {registers.thread_pointer, registers.all}, stack_);
    look.stat = stat;
    if (look.taken && options_.mode == Mode::kGil) {
        const std::vector<Address> holders = thread.process.python->gil_holders(thread.process.memory);
        if (std::ranges::find(holders, registers.thread_pointer) == holders.end()) {
            look.taken = false;
            look.loss = Loss::kGilMoved;
        }
    }
    return look;
}

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
        case Loss::kBetween: break;
        case Loss::kTorn:
            if (thread.clock.valid()) {
                break;
            }
            [[fallthrough]];
        default: thread.retakes = 0; return false;
    }
    if (thread.retakes == kMaxRetakes) {
        return false;
    }
    ++thread.retakes;
    --batch_.account.samples_wanted;
    ++batch_.account.stacks_retaken;
    return true;
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
    const std::uint64_t now_ns = monotonic_ns();
    if (options_.mode == Mode::kGil) {
        account_holder(thread, now_ns, stack);
    } else {
        account_running(thread, now_ns, look, stack);
    }
}

// Whether it would feel what a record costs at each switch: some microseconds.
bool Sampler::switches_often(const SampledThread& thread, const Stillness& now) {
    return thread.rested && (now.switches - thread.rested->switches) * kSeldom > now.at_ns - thread.rested->at_ns;
}

// Of a blocked thread: all, if they were recorded, or the two that the kernel tells.
RegisterSet Sampler::registers_at_rest(const SampledThread& thread, const ThreadActivity& activity) {
    RegisterSet told;
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
        lose(thread, look.loss);
        return;
    }
    if (switches_often(thread, {now_ns, look.stat.switches})) {
        thread.switch_outs.reset();
    } else if (options_.native && native_.loss == Loss::kNoRegisters && !thread.switch_outs) {
        thread.switch_outs.emplace(thread.tid);  // for the next time
    }
    thread.code_lacked = options_.native && native_.loss == Loss::kNoUnwind;
    thread.blocked = look.stat;
    thread.blocked_ns = now_ns;
    thread.still = thread.rested = Stillness{now_ns, look.stat.switches};
    ++batch_.account.stacks_still;
    const std::uint32_t stack = intern(thread);
    if (options_.mode == Mode::kGil) {
        account_holder(thread, now_ns, stack);
        return;
    }
    const bool in_gil = activity.syscall == SYS_futex && thread.process.python &&
                        thread.process.python->is_gil(activity.first_argument);
    thread.timeline.add_blocked(now_ns, look.stat, stack, in_gil ? State::kGil : State::kBlocked);
}

// Without a stop: collector peek, and threads in the kernel. A stack counts only if two readings of it agree.
void Sampler::take_moving(SampledThread& thread) {
    const std::uint64_t begin_ns = monotonic_ns();
    Look look = look_at(thread, {}, stack_);
    bool agree = false;
    for (int i = 1; i < kMovingLooks && !agree && look.loss != Loss::kNoRuntime; ++i) {
        std::swap(stack_, second_look_);
        const Look second = look_at(thread, {}, stack_);
        agree = look.taken && second.taken && stack_.frames == second_look_.frames && stack_.loss == second_look_.loss;
        look = second;
    }
    if (!agree && look.loss != Loss::kNoRuntime) {
        look.taken = false;
        look.loss = Loss::kTorn;
    }
    look.moving = true;
    kernel_hidden_ = user_only_;
    batch_.account.stacks_moving += look.taken ? 1 : 0;
    spare(thread, monotonic_ns() - begin_ns);
    if (!thread.files.read(look.stat)) {
        look.taken = false;
        look.loss = Loss::kExited;
    }
    account_look(thread, look);
}

Timeline::Claim Sampler::claim(const SampledThread& thread, bool exact) const {
    if (own_clock_is_exact(thread)) {
        return {true, exact, 2 * period_ns_, (kOwedPeriods + thread.clock.cpus()) * period_ns_};
    }
    return {false, exact, std::max(8 * period_ns_, kSchedulerTick), 0};
}

void Sampler::account_running(SampledThread& thread, std::uint64_t now_ns, const Look& look, std::uint32_t stack) {
    if (thread.timeline.unseen_blocked_ns(now_ns, look.stat) > period_ns_ / 8) {
        thread.blocks_until_ns = now_ns + kBlocksPeriods * period_ns_;
    }
    const std::uint64_t over = thread.timeline.add_running(now_ns, look.stat, stack, claim(thread, !look.moving));
    if (over != 0) {
        const std::uint64_t late = (over + period_ns_ / 2) / period_ns_;
        batch_.account.samples_wanted += late;
        batch_.account.samples_late += late;
        thread.process.losses.add(Loss::kLate, late, over);
    }
}

void Sampler::account_holder(SampledThread& thread, std::uint64_t now_ns, std::uint32_t stack) {
    const std::uint64_t since_ns = std::exchange(thread.gil_weight_ns, 0);
    const std::uint64_t weight = std::min(since_ns, 2 * period_ns_);
    if (const std::uint64_t over = since_ns - weight; over != 0) {
        const std::uint64_t late = (over + period_ns_ / 2) / period_ns_;
        batch_.account.samples_wanted += late;
        batch_.account.samples_late += late;
        thread.process.losses.add(Loss::kLate, late, over);
    }
    thread.timeline.add_holder(now_ns, weight, stack);
}

// A sample that was due and has no stack. The time that it would have stood for is counted, not given to another.
void Sampler::lose(SampledThread& thread, Loss loss) {
    std::uint64_t weight = std::exchange(thread.gil_weight_ns, 0);
    if (options_.mode != Mode::kGil) {
        SchedStat stat;
        weight = thread.files.read(stat) ? thread.timeline.skip_running(monotonic_ns(), stat, claim(thread, false)) : 0;
    }
    thread.process.losses.add(loss, 1, weight);
}

}  // namespace weft
