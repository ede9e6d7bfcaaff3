// When a thread is due.
//
// A running thread is paced by its own CPU clock where the kernel gives us one. Ticks in user mode stop it there and then;
// ticks in the kernel come from a second clock and only wake us, since a stop would interrupt the system call. Then ticks
// of the wall clock only look for threads that have come to rest. Where there is no clock, the wall clock's ticks find the
// running threads too. A thread that has stood still for a time is looked at again after a tenth of that time, so that
// hundreds of idle threads cost next to nothing.

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "sampler/sampler.h"

namespace weft {

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMaxPause = 100 * kMillisecond;
constexpr std::uint64_t kScanPeriod = 50 * kMillisecond;
constexpr std::uint64_t kNever = ~0ULL;
constexpr std::uint64_t kRestPeriods = 8;
// Ticks are shifted by up to an eighth of the period either way, against lockstep with what they measure.
constexpr std::uint64_t kJitterParts = 8;
constexpr std::uint32_t kSamplesPerPeriod = 64;  // the clock's period is drawn anew every so many samples
constexpr std::uint64_t kLeavesStop = 20'000;    // ns in which a thread that is let go has left the kernel, and more
constexpr std::uint64_t kUntickedPeriods = 10;   // of CPU time: they were spent in the kernel

bool is_refusal(int error) { return error == EACCES || error == EPERM || error == ENOSYS; }

}  // namespace

std::uint64_t Sampler::jittered(std::uint64_t ns) {
    const std::uint64_t range = std::max<std::uint64_t>(ns / kJitterParts, 1);
    return ns - range + random_() % (2 * range);
}

// Sets the timer to the next point of the grid at which somebody is due.
void Sampler::arm_timer(std::uint64_t now_ns) {
    std::uint64_t due = next_publish_ns_;
    for (const auto& [id, process] : processes_) {
        due = std::min(due, process->next_scan_ns);
        for (const auto& [tid, thread] : process->threads) {
            due = std::min(due, thread->next_check_ns);
        }
    }
    if (options_.mode == Mode::kGil) {
        due = now_ns;
    }
    const bool armed = deadline_ns_ > now_ns;
    if (armed && due + period_ns_ > grid_ns_) {
        return;
    }
    const std::uint64_t from = std::max(due, now_ns);
    grid_ns_ = from - (from - grid_ns_) % period_ns_ + period_ns_;
    deadline_ns_ = grid_ns_ - period_ns_ + jittered(period_ns_);
    itimerspec timer{};
    timer.it_value.tv_sec = static_cast<time_t>(deadline_ns_ / kSecond);
    timer.it_value.tv_nsec = static_cast<long>(deadline_ns_ % kSecond);
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &timer, nullptr);
}

void Sampler::tick(std::uint64_t now_ns) {
    std::vector<SampledThread*> due;
    for (const auto& [id, process] : processes_) {
        if (process->launching) {
            continue;
        }
        if (process->next_scan_ns <= now_ns) {
            process->next_scan_ns = now_ns + kScanPeriod;
            scan_threads(*process);
        }
        for (const auto& [tid, thread] : process->threads) {
            if (thread->next_check_ns <= now_ns) {
                due.push_back(thread.get());
            }
        }
    }
    if (options_.mode == Mode::kGil) {
        for (const auto& [id, process] : processes_) {
            gil_tick(*process, now_ns);
        }
        return;
    }
    for (SampledThread* thread : due) {
        check(*thread, now_ns);
    }
}

void Sampler::check(SampledThread& thread, std::uint64_t now_ns) {
    const std::uint64_t was_due = std::exchange(thread.next_check_ns, now_ns + period_ns_);
    if (thread.trace == SampledThread::Trace::kInterrupted) {
        return;  // its stop is on the way
    }
    SchedStat stat;
    if (!thread.files.read(stat)) {
        thread.next_check_ns = now_ns + kMaxPause;  // ending: its end will be reported, or seen by the next scan
        return;
    }
    if (thread.blocked && *thread.blocked == stat) {
        thread.timeline.still_standing(now_ns);
        thread.next_check_ns = now_ns + std::clamp((now_ns - thread.blocked_ns) / 10, period_ns_, kMaxPause);
        return;
    }
    thread.blocked.reset();
    const ThreadActivity activity = thread.files.activity();
    if (is_in_own_stop(thread, activity)) {
        return;
    }
    if (activity.kind == ThreadActivity::Kind::kBlocked) {
        take_still(thread, stat, activity, false);
        return;
    }
    if (activity.kind == ThreadActivity::Kind::kGone) {
        return;
    }
    if (thread.clock.valid()) {
        const std::int64_t unticked = thread.timeline.unclaimed_cpu_ns(stat);
        // By its own ticks, claims may be behind (Timeline::Claim), and so was the account that they began with.
        const std::uint64_t patience =
            own_clock_is_exact(thread) ? kUntickedPeriods * period_ns_ + kSchedulerTick : 2 * period_ns_;
        if (unticked < static_cast<std::int64_t>(patience)) {
            return;
        }
        if (thread.clock.stops() && unticked > static_cast<std::int64_t>(2 * patience)) {
            choose_clock(thread);  // its ticks do not arrive: the program has blocked the signal, perhaps
        }
        if (thread.kernel_clock.valid() || (!thread.clock.stops() && !user_only_)) {
            return;
        }
        open_kernel_clock(thread);
    } else if (was_due != 0 && now_ns > was_due + period_ns_) {
        const std::uint64_t late = (now_ns - was_due) / period_ns_;
        batch_.account.samples_wanted += late;
        batch_.account.samples_late += late;
        thread.process.losses.add(Loss::kLate, late, 0);
    }
    sample_running(thread, now_ns);
}

// A tick has stopped it, and the report is on the way. It looks like a thread that is blocked outside of a system call.
bool Sampler::is_in_own_stop(const SampledThread& thread, const ThreadActivity& activity) {
    return thread.clock.stops() && activity.kind == ThreadActivity::Kind::kBlocked && activity.syscall < 0 &&
           thread.trace == SampledThread::Trace::kRunning && tracer::current_stop(thread.tid);
}

// It runs on and on: its own clock will do, and the wall clock only has to find out when it comes to rest. (A thread that
// runs and blocks in turns is looked at at every tick, or else we would see it run only.)
void Sampler::paced(SampledThread& thread, std::uint64_t now_ns) {
    thread.blocked.reset();
    const bool all_ticks = own_clock_is_exact(thread) && (!thread.clock.stops() || thread.kernel_clock.valid());
    if (options_.mode == Mode::kCpu && all_ticks) {
        thread.next_check_ns = kNever;
    } else if (now_ns >= thread.blocks_until_ns) {
        thread.next_check_ns = now_ns + kRestPeriods * period_ns_;
    }
}

// A tick that woke us.
void Sampler::cpu_tick(SampledThread& thread) {
    const std::uint64_t now_ns = monotonic_ns();
    if (options_.mode == Mode::kGil || thread.process.launching) {
        return;
    }
    if (const auto tick_ns = thread.kernel_clock.take_tick();
        tick_ns && *tick_ns >= thread.stopped_ns && *tick_ns < thread.released_ns + kLeavesStop) {
        return;  // it was in the kernel because we had stopped it
    }
    if (thread.trace == SampledThread::Trace::kInterrupted) {
        ++batch_.account.samples_wanted;
        ++batch_.account.samples_late;
        thread.process.losses.add(Loss::kLate, 1, 0);
        return;
    }
    if (!std::exchange(thread.grown, true) && !thread.clock.stops()) {
        choose_clock(thread);  // a thread is born with all signals blocked, and has unblocked them by now
    }
    const ThreadActivity seen = thread.files.activity();
    if (is_in_own_stop(thread, seen)) {
        return;
    }
    if (seen.kind != ThreadActivity::Kind::kBlocked) {
        sample_running(thread, now_ns);
        return;
    }
    SchedStat stat;
    if (thread.files.read(stat)) {
        if (const ThreadActivity activity = thread.files.activity(); activity.kind == ThreadActivity::Kind::kBlocked) {
            take_still(thread, stat, activity, true);
        }
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
                take_still(*thread, stat, activity, false);
            } else if (activity.kind != ThreadActivity::Kind::kGone) {
                sample_running(*thread, now_ns);
            }
            break;
        }
    }
}

// Gives the thread the clock that disturbs it least: one that stops it by itself, if the signal for that means nothing to
// the program.
void Sampler::choose_clock(SampledThread& thread) {
    thread.clock = CpuClock();
    thread.kernel_clock = CpuClock();
    if (clocks_refused_ || options_.mode == Mode::kGil) {
        return;
    }
    bool opened = false;
    if (thread.trace != SampledThread::Trace::kNot && read_thread_status(thread.tid).ignores(kTickSignal)) {
        opened = open_clock(thread, thread.clock, CpuClock::Ticks::kStopInUser);
    } else {
        opened = !user_only_ && open_clock(thread, thread.clock, CpuClock::Ticks::kWake);
        if (!opened && (user_only_ || is_refusal(errno))) {
            user_only_ = true;
            opened = open_clock(thread, thread.clock, CpuClock::Ticks::kWakeInUser);
        }
    }
    // Seccomp filters and strict settings refuse the system call as such: do not ask again for every thread.
    clocks_refused_ = !opened && is_refusal(errno) && batch_.account.cpu_clocks == 0;
}

// The clock of a thread that we can sample from now on.
void Sampler::give_clock(SampledThread& thread) {
    choose_clock(thread);
    ++(thread.clock.valid() ? batch_.account.cpu_clocks : batch_.account.cpu_clocks_refused);
}

void Sampler::open_kernel_clock(SampledThread& thread) {
    if (!user_only_ && !open_clock(thread, thread.kernel_clock, CpuClock::Ticks::kWakeInKernel)) {
        user_only_ = is_refusal(errno);
    }
}

bool Sampler::open_clock(SampledThread& thread, CpuClock& clock, CpuClock::Ticks ticks) {
    clock = CpuClock::open(thread.tid, jittered(period_ns_), ticks);
    if (clock.valid() && !clock.stops()) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = kClockTag | static_cast<std::uint32_t>(thread.tid);
        epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, clock.descriptor(), &event);
    }
    return clock.valid();
}

// Each change interrupts the CPU that the thread ran on last.
void Sampler::vary_clocks(SampledThread& thread) {
    if (++thread.samples % kSamplesPerPeriod != 0) {
        return;
    }
    for (const CpuClock* clock : {&thread.clock, &thread.kernel_clock}) {
        if (clock->valid()) {
            clock->set_period(jittered(period_ns_));
        }
    }
}

}  // namespace weft
