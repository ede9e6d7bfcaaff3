// When a thread is due.
//
// A running thread is paced by its own CPU clock where the kernel gives us one; then ticks of the wall clock only look for
// threads that have come to rest. Where there is no clock, the wall clock's ticks find the running threads too, and stop
// them. A thread that has stood still for a time is looked at again after a tenth of that time, so that hundreds of idle
// threads cost next to nothing.

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "sampler/sampler.h"

namespace weft {

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMaxPause = 100 * kMillisecond;
constexpr std::uint64_t kLongestRest = kSecond;  // between two looks at a thread that stands still
constexpr std::uint64_t kRestPeriods = 8;
// For how long the wall clock's every tick looks at a thread that has blocked.
constexpr std::uint64_t kBlocksPeriods = 100;
// From one tick of a clock to the next. The least is what a reader may need to get its CPU: until it has set the next period, the
// clock goes on with the last one.
constexpr std::uint64_t kLeastPeriod = kMillisecond / 10;
constexpr int kMostPeriods = 4;
constexpr double kMeanOfDrawn = 0.982;  // 1 - exp(-kMostPeriods): what is above that counts as that
// What a thread may run beyond its period until the tick comes: its timer is set anew wherever it is switched in (0.4 ms were seen).
constexpr std::uint64_t kTickDelay = kMillisecond / 2;

bool is_refusal(int error) { return error == EACCES || error == EPERM || error == ENOSYS; }

}  // namespace

// From a half to one and a half. Each is drawn anew: a program whose work has a rhythm near to ours falls into step with a clock
// that strays less, and is met in the same places again and again.
double Sampler::drawn_factor() { return std::uniform_real_distribution<double>(0.5, 1.5)(random_); }

std::uint64_t Sampler::between(std::uint64_t least_ns, std::uint64_t most_ns) {
    return std::uniform_int_distribution<std::uint64_t>(least_ns, most_ns)(random_);
}

std::uint64_t Sampler::drawn_period_ns() {
    return static_cast<std::uint64_t>(drawn_factor() * static_cast<double>(period_ns_));
}

// Of a thread's own clock, whose ticks lengthen what they fall into: without memory, as far as can be, so that how long a turn of
// the program's work is and what came before it does not tell whether it is met.
std::uint64_t Sampler::drawn_tick_ns(std::uint64_t passed_ns) {
    const std::uint64_t least_ns = std::min(kLeastPeriod, period_ns_ / 2);
    const double drawn =
        std::min<double>(kMostPeriods, std::exponential_distribution<double>()(random_)) / kMeanOfDrawn;
    const auto more_ns = static_cast<std::uint64_t>(drawn * static_cast<double>(period_ns_ - least_ns));
    return least_ns + more_ns - std::min(passed_ns, more_ns);
}

// The wall clock's next tick, or when somebody is due, if that is later.
std::uint64_t Sampler::next_deadline_ns(std::uint64_t now_ns) const {
    std::uint64_t due = urgent_ ? now_ns : next_publish_ns_;
    if (!kernel_side_) {  // whose ring is looked at more often than that
        due = std::min(due, next_free_ns_);
    }
    for (const auto& [id, process] : processes_) {
        due = std::min(due, process->next_scan_ns);
        for (const auto& [tid, thread] : process->threads) {
            due = std::min(due, thread->next_check_ns);
        }
    }
    return options_.mode == Mode::kGil ? next_tick_ns_ : std::max(next_tick_ns_, due);
}

void Sampler::arm_timer(std::uint64_t now_ns) {
    const std::uint64_t at = next_deadline_ns(now_ns);
    if (deadline_ns_ <= now_ns || deadline_ns_ > at) {
        set_timer(at);
    }
}

// On a reader, behind its samples: who has ticked need not be looked at until later, and the sampler's thread need not wake up
// to find that out, which costs 20 to 40 us.
void Sampler::postpone_timer(std::uint64_t now_ns) {
    if (deadline_ns_ <= now_ns || deadline_ns_ - now_ns > 2 * period_ns_) {
        return;  // it has come, or there is time
    }
    if (const std::uint64_t at = next_deadline_ns(now_ns); at > deadline_ns_) {
        set_timer(at);
    }
}

void Sampler::set_timer(std::uint64_t at_ns) {
    deadline_ns_ = at_ns;
    itimerspec timer{};
    timer.it_value.tv_sec = static_cast<time_t>(deadline_ns_ / kSecond);
    timer.it_value.tv_nsec = static_cast<long>(deadline_ns_ % kSecond);
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &timer, nullptr);
}

void Sampler::tick(std::uint64_t now_ns) {
    const std::uint64_t missed = (now_ns - std::min(now_ns, deadline_ns_)) / period_ns_;
    next_tick_ns_ = deadline_ns_ + missed * period_ns_ + drawn_period_ns();
    scan_processes(now_ns);
    std::vector<std::pair<pid_t, SampledThread*>> due;
    for (const auto& [id, process] : processes_) {
        if (process->launching) {
            continue;
        }
        for (const auto& [tid, thread] : process->threads) {
            if (thread->next_check_ns <= now_ns) {
                due.emplace_back(tid, thread.get());
            }
        }
    }
    if (options_.mode == Mode::kGil) {
        for (const auto& [id, process] : processes_) {
            gil_tick(*process, now_ns);
        }
        return;
    }
    for (const auto& [tid, thread] : due) {
        if (is_known(tid, thread)) {
            check(*thread, now_ns, missed);
        }
    }
}

// When a thread that can wait is looked at again. Under collector bpf all are together: to wake up for one costs more than to look.
std::uint64_t Sampler::check_time(std::uint64_t at_ns) const {
    return kernel_side_ ? (at_ns / kMaxPause + 1) * kMaxPause : at_ns;
}

// At a tick of the wall clock, the first after so many that were missed.
void Sampler::check(SampledThread& thread, std::uint64_t now_ns, std::uint64_t missed) {
    const bool is_new = std::exchange(thread.next_check_ns, next_tick_ns_) == 0;
    if (thread.trace == SampledThread::Trace::kInterrupted) {
        return;  // its stop is on the way
    }
    if (const std::optional<Away>& away = thread.off_cpu.away(); away && !away->was_read) {
        thread.next_check_ns = check_time(now_ns + kMaxPause);
        return;  // the kernel has told where, and will tell when it comes back
    }
    SchedStat stat;
    if (!thread.files.read(stat)) {  // ending: its end will be reported, or seen by the next scan
        thread.next_check_ns = check_time(now_ns + kMaxPause);
        return;
    }
    if (thread.blocked && *thread.blocked == stat) {
        thread.timeline.still_standing(now_ns);
        const std::uint64_t pause = std::clamp((now_ns - thread.blocked_ns) / 10, period_ns_, kLongestRest);
        thread.next_check_ns = check_time(now_ns + pause);
        return;
    }
    thread.blocked.reset();
    if (thread.off_cpu.away() && has_left_anew(thread)) {
        return;
    }
    const ThreadActivity activity = thread.files.activity();
    if (activity.kind == ThreadActivity::Kind::kBlocked) {
        take_still(thread, stat, activity);
        return;
    }
    if (activity.kind == ThreadActivity::Kind::kGone) {
        return;
    }
    if (kernel_side_) {
        if (tells_switches()) {
            thread.next_check_ns = check_time(now_ns + kMaxPause);
        }
        return;  // its samples come by themselves
    }
    if (thread.clock.valid()) {
        const SchedStat ticked = thread.ticked.value_or(stat);
        thread.ticked = ticked;
        if (stat.cpu_ns < ticked.cpu_ns + patience_ns(thread, ticked, stat)) {
            return;
        }
        if (own_clock_is_exact(thread)) {
            thread.ticked = stat;
            open_clock(thread);  // it may run on other CPUs now; or its reader has not got the CPU
            return;
        }
        if (thread.clock.has_ticks()) {
            return;  // it has ticked, in user mode: its reader has not got the CPU
        }
        thread.ticked = stat;
    } else if (missed != 0 && !is_new) {
        add_late(thread, missed, 0);
    }
    sample_running(thread, now_ns);
}

// How much CPU time a thread may have used since its clock last ticked, before we believe that it does not tick.
std::uint64_t Sampler::patience_ns(const SampledThread& thread, const SchedStat& ticked, const SchedStat& now) const {
    const std::size_t cpus = thread.clock.cpus();
    if (own_clock_is_exact(thread)) {
        return (kMostPeriods * cpus + 1) * period_ns_ + kSchedulerTick;
    }
    // On each CPU it ticks after another period there. The thread comes to another one where it is switched in.
    const bool was_off = thread.still && thread.still->switches == ticked.switches;
    return thread.clock.longest_ns(now.switches - ticked.switches + (was_off ? 0 : 1)) + kTickDelay;
}

// It has moved since it was read, away from its CPU: perhaps that has been told by now. True: it has been, or the thread's end.
bool Sampler::has_left_anew(SampledThread& thread) {
    const pid_t tid = thread.tid;
    take_kernel_samples();
    if (!is_known(tid, &thread) || (thread.off_cpu.away() && !thread.off_cpu.away()->was_read)) {
        return true;
    }
    thread.off_cpu.is_not_there();
    thread.timeline.stand_no_more();
    return false;
}

// It runs on and on: its own clock will do, and the wall clock only has to find out when it comes to rest. (A thread that
// runs and blocks in turns is looked at at every tick, or else we would see it run only; and one whose clock does not tick
// in the kernel, or that has none.)
void Sampler::check_later(SampledThread& thread, std::uint64_t now_ns) {
    thread.blocked.reset();
    if (!own_clock_is_exact(thread)) {
        return;
    }
    if (tells_switches()) {
        thread.next_check_ns = check_time(now_ns + kMaxPause);
    } else if (options_.mode == Mode::kCpu && !kernel_side_) {
        thread.next_check_ns = now_ns + kSecond;  // whether its ticks still come
    } else if (options_.mode == Mode::kWall && now_ns >= thread.blocks_until_ns) {
        thread.next_check_ns = now_ns + kRestPeriods * period_ns_;
    }
}

// It has blocked since its last sample, and may soon again: from the next tick of the wall clock on it is looked at each time. The
// timer may have been set for a thread that stands still.
void Sampler::look_for_blocks(SampledThread& thread, std::uint64_t now_ns) {
    if (options_.mode != Mode::kWall || tells_switches()) {
        return;
    }
    thread.blocks_until_ns = now_ns + kBlocksPeriods * period_ns_;
    thread.next_check_ns = std::min(thread.next_check_ns, now_ns + period_ns_);
    if (deadline_ns_ > thread.next_check_ns) {
        set_timer(thread.next_check_ns);
    }
}

void Sampler::gil_tick(SampledProcess& process, std::uint64_t now_ns) {
    const std::uint64_t since = std::exchange(process.gil_tick_ns, now_ns);
    if (!process.python || since == 0) {
        return;
    }
    for (const Address holder : process.python->gil_holders(process.memory)) {
        for (const auto& [tid, thread] : process.threads) {
            if (!process.python->is(thread->python, holder)) {
                continue;
            }
            thread->gil_weight_ns += now_ns - since;
            SchedStat stat;
            if (thread->trace == SampledThread::Trace::kInterrupted || !thread->files.read(stat)) {
                break;
            }
            const ThreadActivity activity = thread->files.activity();
            if (activity.kind == ThreadActivity::Kind::kBlocked) {
                take_still(*thread, stat, activity);
            } else if (activity.kind != ThreadActivity::Kind::kGone) {
                sample_running(*thread, now_ns);
            }
            break;
        }
    }
}

// The clock of a thread that we can sample from now on.
void Sampler::give_clock(SampledThread& thread) {
    if (kernel_side_) {
        return;
    }
    if (!clocks_refused_ && options_.mode != Mode::kGil && !open_clock(thread)) {
        // Seccomp filters and strict settings refuse the system call as such: do not ask again for every thread.
        clocks_refused_ = is_refusal(errno) && batch_.account.cpu_clocks == 0;
    }
    ++(thread.clock.valid() ? batch_.account.cpu_clocks : batch_.account.cpu_clocks_refused);
}

bool Sampler::open_clock(SampledThread& thread) {
    const std::vector<std::shared_ptr<TickRing>> rings = readers_.rings_for(thread.tid);
    // The first ticks come at any time of the period, or a thread that is moved from CPU to CPU would get none for long. Not
    // at once: until a reader has got the CPU and set the period, they come at this one again and again (one every 30 us was
    // seen, for 2.5 ms in the kernel).
    const std::uint64_t first_ns = between(period_ns_ / 4, period_ns_ + period_ns_ / 4);
    const auto all = options_.native ? CpuClock::Ticks::kStacks : CpuClock::Ticks::kAll;
    thread.clock = CpuClock::open(thread.tid, first_ns, user_only_ ? CpuClock::Ticks::kUser : all, rings);
    if (!thread.clock.valid() && !rings.empty() && !user_only_ && is_refusal(errno)) {
        user_only_ = true;
        thread.clock = CpuClock::open(thread.tid, first_ns, CpuClock::Ticks::kUser, rings);
    }
    return thread.clock.valid();
}

}  // namespace weft
