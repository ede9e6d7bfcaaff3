#include "sampler/readers.h"

#include <linux/sched/types.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "sampler/proc.h"

namespace weft {

namespace {

constexpr int kMaxEvents = 16;
constexpr std::uint64_t kShortestSlice = 100'000;  // ns
constexpr int kMaxCpus = 8192;                     // CONFIG_NR_CPUS of the largest kernels
// From where a tick makes the reader ready to where it runs, if the thread has no instruction in between: below 1 us in 98
// of 100 ticks.
constexpr std::uint64_t kAtOnce = 2'000;    // ns
constexpr std::uint64_t kWakeUp = 100'000;  // ns from a tick to its reader, when nothing is in the way
// What a reader has waited for its CPU is a file's reading of 0.8 us. Of a real-time one, which waits for less than a us as a
// rule, all that it has waited in so many sleeps tells as much.
constexpr unsigned kSleepsTogether = 64;

// As large a set of CPUs as the kernel may know.
class CpuSet {
   public:
    CpuSet() : set_(CPU_ALLOC_SIZE(kMaxCpus) / sizeof(unsigned long)) {}
    cpu_set_t* get() { return reinterpret_cast<cpu_set_t*>(set_.data()); }
    std::size_t size() const { return set_.size() * sizeof(unsigned long); }
    bool has(int cpu) { return CPU_ISSET_S(static_cast<std::size_t>(cpu), size(), get()); }
    void add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), size(), get()); }

   private:
    std::vector<unsigned long> set_;
};

void watch(int epoll, int descriptor, TickRing* ring) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = ring;
    epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

// The calling thread must take the CPU from whatever runs there, and at once: a fair scheduler may let that have its slice
// first, for some ms. Ordinary users may not ask for more than fairness. There, a thread that wants short slices may come
// before others that have slices left (from Linux 6.12 on; kernel/sched/fair.c, PREEMPT_SHORT). Whether it is real-time now.
bool take_precedence() {
    const sched_param lowest{1};
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0) {
        return true;
    }
    sched_attr fair{};
    fair.size = sizeof fair;
    fair.sched_policy = SCHED_OTHER;
    fair.sched_runtime = kShortestSlice;
    syscall(SYS_sched_setattr, 0, &fair, 0);
    return false;
}

}  // namespace

Wake::Wake(const ThreadFiles& own, bool in_real_time, const SchedStat& asleep)
    : own_(own), in_real_time_(in_real_time), asleep_ns_(monotonic_ns()), switches_(own_switches()), asleep_(asleep) {}

bool Wake::has_waited(std::uint64_t least_ns) const {
    SchedStat now;
    return !own_.read(now) || now.delay_ns - asleep_.delay_ns >= least_ns;
}

bool Wake::by(const Tick& tick) const {
    if (tick.time_ns <= asleep_ns_ || own_switches() != switches_ + 1) {
        return false;
    }
    // A fair scheduler may let the thread go on until something else interrupts it.
    if (!in_real_time_) {
        return !has_waited(kAtOnce);
    }
    // The kernel lets go of the CPU when it will, and the machine's host when that will, but a real-time reader has it before the
    // thread's next instruction in user mode, whose registers are what they were when it entered the kernel. If it has waited
    // since it was made ready, another real-time thread has had the CPU, and the thread may have had its share of that (dl_server).
    return tick.kernel.count != 0 || awake_ns_ - std::min(awake_ns_, tick.time_ns) < kWakeUp || !has_waited(kWakeUp);
}

Readers::Readers(OnTicks on_ticks) : on_ticks_(std::move(on_ticks)), stop_(eventfd(0, EFD_CLOEXEC)) {}

std::vector<std::shared_ptr<TickRing>> Readers::rings_for(pid_t tid) {
    std::vector<std::shared_ptr<TickRing>> rings;
    CpuSet cpus;
    if (sched_getaffinity(tid, cpus.size(), cpus.get()) != 0) {
        return {};
    }
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
        if (!cpus.has(cpu)) {
            continue;
        }
        Reader& reader = reader_on(cpu);
        if (reader.error != 0) {
            errno = reader.error;
            return {};
        }
        // One use is the reader's own.
        const auto free = std::ranges::find_if(
            reader.rings, [](const auto& ring) { return ring.use_count() <= TickRing::kMaxClocks; });
        if (free != reader.rings.end()) {
            rings.push_back(*free);
            continue;
        }
        auto ring = std::make_shared<TickRing>(cpu);
        if (!ring->valid()) {
            return {};
        }
        reader.rings.push_back(ring);
        watch(reader.epoll.get(), ring->descriptor(), ring.get());
        rings.push_back(std::move(ring));
    }
    return rings;
}

Readers::Reader& Readers::reader_on(int cpu) {
    const auto known = std::ranges::find(readers_, cpu, [](const auto& reader) { return reader->cpu; });
    if (known != readers_.end()) {
        return **known;
    }
    Reader& reader = *readers_.emplace_back(std::make_unique<Reader>());
    reader.cpu = cpu;
    reader.epoll = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (!reader.epoll.valid()) {
        reader.error = errno;
        return reader;
    }
    watch(reader.epoll.get(), stop_.get(), nullptr);
    reader.thread = std::thread([this, &reader] { run(reader); });
    CpuSet only;
    only.add(cpu);
    // Refused outside of our own cpuset.
    reader.error = pthread_setaffinity_np(reader.thread.native_handle(), only.size(), only.get());
    return reader;
}

void Readers::run(Reader& reader) const {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    const bool in_real_time = take_precedence();
    const ThreadFiles own(getpid(), gettid());
    prctl(PR_SET_NAME, "weft-reader");
    std::array<epoll_event, kMaxEvents> events;
    SchedStat asleep;
    for (unsigned sleeps = 0;; ++sleeps) {
        if (!in_real_time || sleeps % kSleepsTogether == 0) {
            static_cast<void>(own.read(asleep));
        }
        Wake wake(own, in_real_time, asleep);
        const int count = epoll_wait(reader.epoll.get(), events.data(), kMaxEvents, -1);
        wake.has_come();
        for (int i = 0; i < count; ++i) {
            auto* ring = static_cast<TickRing*>(events[static_cast<std::size_t>(i)].data.ptr);
            if (ring == nullptr) {
                reader.cpu_ns = own_cpu_ns();
                return;
            }
            on_ticks_(*ring, wake);
        }
    }
}

void Readers::stop() {
    const std::uint64_t one = 1;
    static_cast<void>(!write(stop_.get(), &one, sizeof one));
    for (const auto& reader : readers_) {
        if (reader->thread.joinable()) {
            reader->thread.join();
        }
    }
}

std::uint64_t Readers::cpu_ns() const {
    std::uint64_t total = 0;
    for (const auto& reader : readers_) {
        clockid_t clock{};
        if (!reader->thread.joinable()) {
            total += reader->cpu_ns;
        } else if (pthread_getcpuclockid(reader->thread.native_handle(), &clock) == 0) {
            total += read_clock(clock);
        }
    }
    return total;
}

}  // namespace weft
