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
constexpr std::uint64_t kRestPeriods = 8;
// Ticks are shifted by up to an eighth of the period either way, against lockstep with what they measure.
constexpr std::uint64_t kJitterParts = 8;

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
    scan_processes(now_ns);
    std::vector<SampledThread*> due;
    for (const auto& [id, process] : processes_) {
        if (process->launching) {
            continue;
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
    if (activity.kind == ThreadActivity::Kind::kBlocked) {
        take_still(thread, stat, activity);
        return;
    }
    if (activity.kind == ThreadActivity::Kind::kGone) {
        return;
    }
    if (thread.clock.valid()) {
        // On each CPU it ticks after another period there.
        const std::uint64_t patience =
            own_clock_is_exact(thread) ? (thread.clock.cpus() + 1) * period_ns_ + kSchedulerTick : 2 * period_ns_;
        const std::uint64_t ticked = thread.ticked_cpu_ns.value_or(stat.cpu_ns);
        thread.ticked_cpu_ns = ticked;
        if (stat.cpu_ns < ticked + patience) {
            return;
        }
        thread.ticked_cpu_ns = stat.cpu_ns;
        if (own_clock_is_exact(thread)) {
            open_clock(thread);  // it may run on other CPUs now; or its reader has not got the CPU
            return;
        }
    } else if (was_due != 0 && now_ns > was_due + period_ns_) {
        const std::uint64_t late = (now_ns - was_due) / period_ns_;
        batch_.account.samples_wanted += late;
        batch_.account.samples_late += late;
        thread.process.losses.add(Loss::kLate, late, 0);
    }
    sample_running(thread, now_ns);
}

// It runs on and on: its own clock will do, and the wall clock only has to find out when it comes to rest. (A thread that
// runs and blocks in turns is looked at at every tick, or else we would see it run only.)
void Sampler::check_later(SampledThread& thread, std::uint64_t now_ns) {
    thread.blocked.reset();
    if (options_.mode == Mode::kCpu && own_clock_is_exact(thread)) {
        thread.next_check_ns = now_ns + kSecond;  // whether its ticks still come
    } else if (now_ns >= thread.blocks_until_ns) {
        thread.next_check_ns = now_ns + kRestPeriods * period_ns_;
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
    if (!clocks_refused_ && options_.mode != Mode::kGil && !open_clock(thread)) {
        // Seccomp filters and strict settings refuse the system call as such: do not ask again for every thread.
        clocks_refused_ = is_refusal(errno) && batch_.account.cpu_clocks == 0;
    }
    ++(thread.clock.valid() ? batch_.account.cpu_clocks : batch_.account.cpu_clocks_refused);
}

bool Sampler::open_clock(SampledThread& thread) {
    const std::vector<std::shared_ptr<TickRing>> rings = readers_.rings_for(thread.tid);
    // The first ticks come at any time of the period, or a thread that is moved from CPU to CPU would get none for long.
    const std::uint64_t first_ns = 1 + random_() % period_ns_;
    const auto all = options_.native ? CpuClock::Ticks::kStacks : CpuClock::Ticks::kAll;
    thread.clock = CpuClock::open(thread.tid, first_ns, user_only_ ? CpuClock::Ticks::kUser : all, rings);
    if (!thread.clock.valid() && !rings.empty() && !user_only_ && is_refusal(errno)) {
        user_only_ = true;
        thread.clock = CpuClock::open(thread.tid, first_ns, CpuClock::Ticks::kUser, rings);
    }
    return thread.clock.valid();
}

}  // namespace weft
