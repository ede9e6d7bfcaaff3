// One look at a thread that runs: stop or no stop, and read.

#include <sched.h>

#include <algorithm>

#include "sampler/sampler.h"

namespace weft {

namespace {

constexpr std::uint64_t kAgain = 1'000'000'000;  // ns, before a thread that is denied to us is tried again
constexpr int kMovingLooks = 8;
constexpr int kAgreeing = 3;
constexpr int kWaitingLooks = 3;

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
    // The next period begins when the thread goes on, so what has passed of it is taken off: the interrupt and the switch to
    // this reader, not what the reader had to wait for its CPU, which is no time of the thread's.
    const std::uint64_t now_ns = monotonic_ns();
    const std::uint64_t passed_ns = std::min(now_ns - std::min(now_ns, tick.time_ns), period_ns_ / 4);
    thread.clock.set_period(cpu, drawn_tick_ns(passed_ns));
    check_later(thread, tick.time_ns);
    if (!is_due(thread, tick.time_ns)) {
        return;
    }
    const Look look = look_at_waiting(thread, cpu, tick, wake);
    if (look.stat.cpu_ns != 0) {
        thread.ticked = look.stat;
    }
    if (look.held_ns != 0) {
        holds_.add(look.held_ns);
        spare(thread, look.held_ns);
    }
    account_look(thread, look);
}

// The stack counts if the thread provably is on no CPU from before it is read until after. While the reader has to wait for
// a page or for the thread's mmap lock, the thread goes on; then it is read again.
Sampler::Look Sampler::look_at_waiting(SampledThread& thread, int cpu, const Tick& tick, const Wake& wake) {
    Look look;
    look.loss = Loss::kTorn;
    if (sched_getcpu() != cpu) {
        return look;  // the kernel has taken this CPU away (hotplug)
    }
    // Known not to have been on a CPU at some time, and switched in once since then: that was for this tick, on this CPU, which
    // is ours now. It was once before the reading if it is once behind it. Where others have the CPU in turns with it that fails
    // as a rule, and the stack would be read in vain.
    const std::optional<Stillness> still = thread.still;
    if (still && thread.ran_on && tick.time_ns > still->at_ns) {
        if (const auto seen = look_between(thread, still->switches + 1, &tick, wake)) {
            return *seen;
        }
    }
    for (int i = 0; i < kWaitingLooks; ++i) {
        if (!thread.files.read(look.stat)) {
            look.loss = Loss::kExited;
            return look;
        }
        if (i == 0) {
            thread.ran_on = still && look.stat.switches == still->switches + 1;
        }
        // It must be this CPU's; then it is not on it, since we are.
        if (thread.files.cpu() != cpu) {
            return look;
        }
        if (const auto seen = look_between(thread, look.stat.switches, i == 0 ? &tick : nullptr, wake)) {
            return *seen;
        }
    }
    return look;
}

// What is seen of a thread that has been switched in so often, if that still holds behind the reading. `tick`: at which it may
// still be; null: it has been looked at since then.
std::optional<Sampler::Look> Sampler::look_between(SampledThread& thread, std::uint64_t switches, const Tick* tick,
                                                   const Wake& wake) {
    const std::uint64_t begin_ns = monotonic_ns();
    // If this reader has had the CPU since the tick, the thread has not moved since, and its registers are the tick's.
    bool at_tick = tick != nullptr && wake.by(*tick);
    Look seen;
    if (at_tick) {
        seen = look_at(thread, {0, tick->registers}, stack_);
        at_tick = !options_.native || seen.loss == Loss::kNoRuntime || stack_is_of(*tick);
    }
    const bool is_blind = options_.native && !at_tick && thread.blind_looks.again(begin_ns);
    if (is_blind) {
        // The next tick will tell them: to read now would only use up this reader's share of the CPU.
        seen = Look{};
        seen.loss = Loss::kNoRegisters;
    } else if (!at_tick) {
        seen = look_at(thread, {}, stack_);
    }
    if (!thread.files.read(seen.stat) || seen.stat.switches != switches) {
        return std::nullopt;
    }
    thread.still = Stillness{monotonic_ns(), seen.stat.switches};
    if (is_blind) {
        return seen;
    }
    seen.held_ns = thread.still->at_ns - (at_tick ? tick->time_ns : begin_ns);
    thread.blind_looks.end();
    if (at_tick) {
        note_kernel(tick->kernel);
    }
    ++batch_.account.stacks_waiting;
    return seen;
}

// Whether the native stack that was read last is the tick's. In the kernel, the thread's system call may have written there since.
bool Sampler::stack_is_of(const Tick& tick) {
    const std::span<const std::byte> then = std::span(tick.stack).first(tick.stack_size);
    return tick.kernel.count != 0 || (!then.empty() && std::ranges::equal(stack_copy_.bytes(then.size()), then));
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
    return look_at(thread, position, stack, nullptr);
}

// The same; or the stack that the kernel has read.
Sampler::Look Sampler::look_at(SampledThread& thread, const ThreadPosition& position, PythonStack& stack,
                               const KernelSample* sample) {
    SampledProcess& process = thread.process;
    Look look;
    stack.clear();
    late_.reset();
    kernel_.clear();
    kernel_hidden_ = false;
    PythonTarget* python = process.python.get();
    const bool was_unknown = sample != nullptr && sample->head().python_end == WEFT_END_NO_STATE &&
                             sample->head().time_ns < process.python_since_ns;
    if (process.python_state == SampledProcess::Python::kUnknown || was_unknown) {
        python = nullptr;
        stack.loss = look.loss = Loss::kNoRuntime;
        if (sample == nullptr) {
            return look;
        }
        // The kernel has read the native stack, which may be all of it.
    }
    process.memory.read_through(thread.tid);
    std::optional<SampleMemory> then;
    LatePages* late = nullptr;
    if (sample != nullptr) {
        if (sample->met_unreadable()) {
            late = &process.late_pages;
            late->begin(ring_looks_,
                        {[&] { return is_where_it_left(thread, *sample); }, [&] { return thread.files.faults(); }});
        }
        then.emplace(*sample, process.code, process.memory, late);
    }
    if (python != nullptr && then) {
        SampleObjects objects(*sample);
        const PastThread past{
            *then, objects, sample->codes(), sample->head().thread_state, sample->head().is_alone != 0, ring_looks_};
        static_cast<void>(python->look(process.memory, thread.python, position, stack, &past));
        look_soon_ = look_soon_ || objects.reads_of_now() != 0;
    } else if (python != nullptr) {
        ThreadPosition with_stack = position;
        with_stack.stack_end = options_.native ? thread.stack_end : 0;
        static_cast<void>(python->look(process.memory, thread.python, with_stack, stack));
    }
    Memory& own = process.memory;
    weave(thread, position.registers, then ? *then : own, sample);
    if (options_.native && woven_.lacks_python && stack.loss == Loss::kNone) {
        stack.loss = Loss::kBetween;
    }
    // A stack of which nothing could be read is no stack; the rest is kept and marked.
    look.taken = stack.loss == Loss::kNone || !stack.frames.empty() || !native_.frames.empty();
    look.loss = stack.loss;
    if (late != nullptr && late->pages() != 0) {
        ++batch_.account.stacks_read_late;
    }
    return look;
}

// Whether the thread, which left its CPU at the sample, has not been on one since.
bool Sampler::is_where_it_left(const SampledThread& thread, const KernelSample& sample) {
    SchedStat stat;
    return sample.head().record == WEFT_OUT && thread.files.read(stat) && stat.switches == sample.head().switches;
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

// Without a stop: collector peek, and threads in the kernel. A stack counts only if three readings in a row agree: of two
// mixtures of a storm of calls, one in 3,000 pairs was the same and no stack of the program's. In the kernel a thread stays there
// meanwhile if its clock, which then only ticks in user mode, does not tick.
void Sampler::take_moving(SampledThread& thread) {
    const std::uint64_t begin_ns = monotonic_ns();
    Look look = look_at(thread, {}, stack_);
    int agreeing = 1;
    for (int i = 1; i < kMovingLooks && agreeing < kAgreeing && look.loss != Loss::kNoRuntime; ++i) {
        std::swap(stack_, second_look_);
        const Look second = look_at(thread, {}, stack_);
        const bool agree =
            look.taken && second.taken && stack_.frames == second_look_.frames && stack_.loss == second_look_.loss;
        agreeing = agree ? agreeing + 1 : 1;
        look = second;
    }
    if ((agreeing < kAgreeing || thread.clock.has_ticks()) && look.loss != Loss::kNoRuntime) {
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

}  // namespace weft
