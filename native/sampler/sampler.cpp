#include "sampler/sampler.h"

#include <linux/capability.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <stdexcept>

namespace weft {

namespace {

constexpr std::uint64_t kPublishPeriod = 800'000'000;  // so that what is written is never older than a second
// The same where Python's side has to look at something while it lasts: new threads, code that has just been mapped.
constexpr std::uint64_t kFreshPeriod = 250'000'000;
constexpr std::uint64_t kFreePeriod = 250'000'000;  // in which threads that others keep stopped are freed
constexpr std::uint64_t kSoonPause = 10'000'000;
constexpr std::uint64_t kSlowSoonPause = 50'000'000;
constexpr double kSlowHz = 250;
constexpr std::size_t kMaxBatches = 40;  // half a minute or more that the recorder may be behind
constexpr std::size_t kFewBatches = 4;
constexpr int kMaxEvents = 64;
constexpr int kNice = -10;
constexpr std::uint64_t kPatience = 20'000;           // ns
constexpr std::uint64_t kFirstLooks = 1'000'000'000;  // ns, in which threads that are blocked as we come are looked at

// SIGCHLD tells that a tracee has something to report. The sampler takes it in epoll_pwait; should the kernel give it to
// another thread of the process, the handler passes it on. Process-wide, as signal handlers are: one sampler at a time.
std::atomic<int> g_wakeup{-1};
thread_local bool t_is_sampler = false;

void add_one(int descriptor) {
    const std::uint64_t one = 1;
    static_cast<void>(!write(descriptor, &one, sizeof one));
}

void on_sigchld(int /*signal*/) {
    if (!t_is_sampler) {
        const int saved = errno;
        add_one(g_wakeup.load());
        errno = saved;
    }
}

void watch(int epoll, int descriptor, std::uint64_t tag, std::uint32_t how = 0) {
    epoll_event event{};
    event.events = EPOLLIN | how;
    event.data.u64 = tag;
    epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

// CAP_SYS_ADMIN, for which /proc/PID/stack asks, and of this thread alone.
void give_up_admin() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
    if (syscall(SYS_capget, &header, data.data()) == 0) {
        data[0].effective &= ~(1U << CAP_SYS_ADMIN);
        data[0].permitted &= ~(1U << CAP_SYS_ADMIN);
        syscall(SYS_capset, &header, data.data());
    }
}

// How many events there are; negative: SIGCHLD has come.
int wait_for(int epoll, std::span<epoll_event> events, int most_ms) {
    sigset_t mask;
    sigfillset(&mask);
    sigdelset(&mask, SIGCHLD);
    return epoll_pwait(epoll, events.data(), static_cast<int>(events.size()), most_ms, &mask);
}

int to_ms(std::uint64_t ns) { return static_cast<int>(ns / 1'000'000); }

void drain(int descriptor) {
    std::uint64_t count = 0;
    static_cast<void>(!read(descriptor, &count, sizeof count));
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options)
    : options_(options),
      period_ns_(static_cast<std::uint64_t>(1e9 / options.rate_hz)),
      soon_pause_ns_(options.rate_hz > kSlowHz || options.mode != Mode::kCpu ? kSoonPause : kSlowSoonPause),
      random_(static_cast<std::minstd_rand::result_type>(monotonic_ns())),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      quiet_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      batches_ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)),
      readers_([this](TickRing& ring, const Wake& wake) { on_ticks(ring, wake); }) {
    if (!epoll_.valid() || !quiet_.valid() || !timer_.valid() || !wakeup_.valid() || !batches_ready_.valid()) {
        throw std::runtime_error("no file descriptor left for the sampler; raise the limit (ulimit -n)");
    }
    if (options_.kernel) {
        kernel_side_ = std::make_unique<KernelSide>(*options_.kernel);
        sideband_ = std::make_unique<Sideband>();
    }
    int none = -1;
    if (!g_wakeup.compare_exchange_strong(none, wakeup_.get())) {
        throw std::runtime_error("another recording runs in this process");
    }
    if (options_.machine) {
        kernel_side_->sample_others(tells_switches());
    } else if (kernel_side_ && options_.follow_processes) {
        kernel_side_->follow_children();
    }
    if (options_.kernel) {
        watch(epoll_.get(), options_.kernel->ring, kRingTag, EPOLLET);  // it always has something
        watch(quiet_.get(), epoll_.get(), 0);
        for (const int descriptor : follows_others() ? sideband_->descriptors() : std::vector<int>{}) {
            watch(quiet_.get(), descriptor, 0, EPOLLET);
        }
    }
    watch(epoll_.get(), timer_.get(), kTimerTag);
    watch(epoll_.get(), wakeup_.get(), kWakeupTag);
    thread_ = std::thread([this] { run(); });
}

Sampler::~Sampler() { stop(); }

// ---- Python's threads

void Sampler::call(const Command& command) {
    std::mutex done_mutex;
    std::condition_variable done_signal;
    bool done = false;
    {
        const std::lock_guard lock(mutex_);
        if (finished_) {
            return;
        }
        commands_.emplace_back([&] {
            command();
            const std::lock_guard done_lock(done_mutex);
            done = true;
            done_signal.notify_one();
        });
    }
    add_one(wakeup_.get());
    std::unique_lock lock(done_mutex);
    done_signal.wait(lock, [&] { return done; });
}

AttachResult Sampler::attach(pid_t pid, bool launching, const std::optional<PythonPlace>& python, const CodeMap& code) {
    AttachResult result = AttachResult::kGone;
    call([&] { result = attach_now(pid, 0, launching, python, code); });
    return result;
}

void Sampler::set_python(std::uint32_t process, const PythonPlace& place) {
    call([&] {
        if (const auto found = processes_.find(process); found != processes_.end()) {
            give_python(*found->second, place);
        }
    });
}

void Sampler::set_no_python(std::uint32_t process) {
    call([&] {
        if (const auto found = processes_.find(process); found != processes_.end()) {
            found->second->python_state = SampledProcess::Python::kNone;
        }
    });
}

void Sampler::set_code(std::uint32_t process, const CodeMap& code) {
    call([&] {
        const auto found = processes_.find(process);
        if (found == processes_.end()) {
            return;
        }
        // It was read of whatever program the process was then: of the next one, if that has come and nobody has told us yet.
        const std::string image = read_image(found->second->pid);
        if (image.empty() || found->second->image.empty() || image == found->second->image) {
            take_code(*found->second, code);
        }
    });
}

bool Sampler::next_batch(double timeout_s, Batch& batch) {
    pollfd ready{batches_ready_.get(), POLLIN, 0};
    poll(&ready, 1, static_cast<int>(std::ceil(timeout_s * 1e3)));
    const std::lock_guard lock(mutex_);
    if (batches_.empty()) {
        return false;
    }
    drain(batches_ready_.get());
    batch = std::move(batches_.front());
    batches_.pop_front();
    return true;
}

void Sampler::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    add_one(wakeup_.get());
    if (thread_.joinable()) {
        thread_.join();
        g_wakeup.store(-1);  // the next recording may begin, though Python has not let go of this one yet
    }
}

// Where hundreds of processes begin at once, Python's side is not to be kept busy with batches of one event each.
bool Sampler::is_publishing_due(std::uint64_t now_ns) {
    const std::lock_guard lock(mutex_);
    return now_ns >= next_publish_ns_ || (urgent_ && batches_.size() < kFewBatches);
}

bool Sampler::behind() {
    const std::lock_guard lock(mutex_);
    return batches_.size() >= kMaxBatches;
}

// ---- the sampler's thread

void Sampler::run() {
    t_is_sampler = true;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    // Without a handler the signal would be thrown away before it could interrupt the wait.
    struct sigaction handler{};
    handler.sa_handler = on_sigchld;
    handler.sa_flags = SA_RESTART;
    struct sigaction previous{};
    sigaction(SIGCHLD, &handler, &previous);
    prctl(PR_SET_TIMERSLACK, 1UL);
    // A thread that is stopped (mode gil, no CPU clocks) waits for the sampler, on a busy machine up to some ms. Refused to
    // ordinary users. (A short slice, by sched_setattr, was tried, and made no difference.)
    setpriority(PRIO_PROCESS, 0, kNice);
    prctl(PR_SET_NAME, "weft-sampler");

    next_tick_ns_ = monotonic_ns();
    next_publish_ns_ = next_tick_ns_ + kPublishPeriod;
    next_free_ns_ = next_tick_ns_ + kFreePeriod;
    bool going = true;
    std::uint64_t admin_until_ns = kernel_side_ ? 0 : kNever;
    std::unique_lock turn(turn_);
    meet_all();
    while (going) {
        wait(turn);
        if (std::exchange(sigchld_, false)) {
            take_stops();
        }
        run_commands();
        const std::uint64_t now_ns = monotonic_ns();
        if (now_ns >= next_free_ns_) {
            take_stops();  // no thread may be held for ever because a SIGCHLD was lost
            free_unreported();
            next_free_ns_ = now_ns + kFreePeriod;
        }
        if (is_publishing_due(now_ns)) {
            publish(false);
            next_publish_ns_ = now_ns + kPublishPeriod;
            urgent_ = false;
        }
        if (admin_until_ns == 0) {
            admin_until_ns = ever_attached_ || options_.machine ? now_ns + kFirstLooks : 0;
        } else if (now_ns > admin_until_ns) {  // of threads that block later, the kernel tells
            give_up_admin();
            admin_until_ns = kNever;
        }
        const std::lock_guard lock(mutex_);
        going = !stopping_ && !(ever_attached_ && processes_.empty() && !options_.machine);
    }
    take_kernel_samples();
    turn.unlock();
    readers_.stop();
    end_recording();
    sigaction(SIGCHLD, &previous, nullptr);
    // The thread ends here, and with it the tracer: the kernel lets go of every tracee, whatever it is doing.
}

// Gives up its turn while it sleeps.
void Sampler::wait(std::unique_lock<std::mutex>& turn) {
    std::array<epoll_event, kMaxEvents> events;
    arm_timer(monotonic_ns());
    turn.unlock();
    int most_ms = kernel_side_ ? to_ms(soon_pause_ns_) : -1;
    int count = 0;
    if (kernel_side_ && !look_soon_) {
        epoll_event any{};
        count = wait_for(quiet_.get(), {&any, 1}, to_ms(kLookPause));
        most_ms = 0;
    }
    count = count < 0 ? count : wait_for(epoll_.get(), events, most_ms);
    turn.lock();
    take_kernel_samples();
    sigchld_ = count < 0;  // EINTR
    for (int i = 0; i < count; ++i) {
        const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
        const auto id = static_cast<std::uint32_t>(tag);
        if (tag == kTimerTag) {
            drain(timer_.get());
            tick(monotonic_ns());
        } else if (tag == kWakeupTag) {
            drain(wakeup_.get());
            sigchld_ = true;  // perhaps
        } else if ((tag & kProcessTag) != 0) {
            take_stops();  // of a tracee the end is reported, with its status
            if (const auto found = processes_.find(id); found != processes_.end()) {
                end_process(*found->second, -1);
            }
        }
    }
}

// On a reader's thread.
void Sampler::on_ticks(TickRing& ring, const Wake& wake) {
    std::unique_lock turn(turn_, std::defer_lock);
    // While this thread sleeps, the target's goes on. Others have their turn for microseconds, as a rule.
    const std::uint64_t patient_until = monotonic_ns() + kPatience;
    while (!turn.try_lock()) {
        if (monotonic_ns() > patient_until) {
            turn.lock();
            break;
        }
    }
    // Not before: what is in a ring is known to have been looked at by nobody.
    ticks_.clear();
    ring.take(ticks_);
    const std::span<const Tick> ticks = ticks_;
    for (std::size_t i = 0; i < ticks.size(); ++i) {
        const auto found = by_tid_.find(ticks[i].tid);
        if (found == by_tid_.end() || found->second->process.launching) {
            continue;
        }
        const auto later = ticks.subspan(i + 1);
        if (std::ranges::find(later, ticks[i].tid, &Tick::tid) == later.end()) {
            sample_at_tick(*found->second, ring.cpu(), ticks[i], wake);
        } else {
            come_late(*found->second);
        }
    }
    postpone_timer(monotonic_ns());
}

void Sampler::run_commands() {
    std::vector<Command> commands;
    {
        const std::lock_guard lock(mutex_);
        commands.swap(commands_);
    }
    for (const Command& command : commands) {
        command();
    }
}

void Sampler::publish_soon() { next_publish_ns_ = std::min(next_publish_ns_, monotonic_ns() + kFreshPeriod); }

void Sampler::publish(bool finished) {
    for (const auto& [id, process] : processes_) {
        for (const auto& [tid, thread] : process->threads) {
            if (tells_switches()) {
                share_stays(*thread);
            }
            collect(*thread);
        }
        if (!process->late.empty() && process->late.front().until_ns <= monotonic_ns()) {
            complete_late(*process, false);
        }
        batch_.losses.push_back({id, process->losses});
        if (std::exchange(process->has_mapped, false)) {
            tell(*process, Event::Kind::kCodeMapped, 0);
        }
    }
    batch_.gil_waits = gil_blame_.take();
    batch_.kernel_names = kernel_names_.take_new();
    batch_.frames = stacks_.take_frames();
    batch_.stacks = stacks_.take_stacks();
    batch_.until_ns = monotonic_ns();
    batch_.finished = finished;
    Account& account = batch_.account;
    account.holds = holds_.count();
    account.hold_ns_total = holds_.total_ns();
    account.hold_ns_max = holds_.max_ns();
    account.hold_ns_median = holds_.percentile_ns(50);
    account.hold_ns_p99 = holds_.percentile_ns(99);
    account.sampler_cpu_ns = own_cpu_ns() + readers_.cpu_ns();
    Batch next;
    next.account = account;
    const std::lock_guard lock(mutex_);
    batches_.push_back(std::exchange(batch_, std::move(next)));
    add_one(batches_ready_.get());
}

// What the thread's timeline has gathered since the last batch.
void Sampler::collect(SampledThread& thread) {
    if (thread.timeline.runs().size() > 0) {
        batch_.runs.push_back({thread.id, thread.timeline.runs().take()});
    }
    if (thread.timeline.take_standing_changed()) {
        batch_.standing.push_back({thread.id, thread.timeline.standing()});
    }
}

void Sampler::end_recording() {
    ending_ = true;
    while (!processes_.empty()) {
        end_process(*processes_.begin()->second, -1);
    }
    gil_blame_.end();
    publish(true);
    {
        const std::lock_guard lock(mutex_);
        finished_ = true;
    }
    run_commands();  // of callers that came too late: they must not wait for ever
}

}  // namespace weft
