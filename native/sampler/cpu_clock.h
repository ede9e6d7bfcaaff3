// A thread's own CPU clock as the pacer of its samples: perf events that tick each time the thread has used another
// period of CPU time. Nothing is polled, and threads that do not run cost nothing.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/descriptor.h"
#include "sampler/kernel.h"
#include "sampler/perf_event.h"
#include "unwind/rule.h"

namespace weft {

constexpr std::size_t kTickStack = 128;  // bytes: a thread that has gone on has written there

struct Tick {
    pid_t tid = 0;
    std::uint64_t time_ns = 0;  // of the monotonic clock
    RegisterSet registers;      // the thread's in user mode: where it was interrupted, or entered the kernel
    KernelChain kernel;         // and where in the kernel it was then, if the clock tells
    std::array<std::byte, kTickStack> stack{};
    std::size_t stack_size = 0;  // so much of its stack, from the stack pointer on
};

// Where the ticks that fall on one CPU are written. Ticks of several clocks share a ring, or each would cost pages of
// locked memory; but not of many, since each tick wakes the waiters of all (kernel/events/ring_buffer.c).
class TickRing {
   public:
    static constexpr long kMaxClocks = 16;

    explicit TickRing(int cpu);  // not valid() where the kernel refuses

    bool valid() const { return ring_.valid(); }
    int cpu() const { return cpu_; }
    int descriptor() const { return ring_.descriptor(); }  // readable when there are new ticks

    // Adds the ticks since the last call, oldest first. Those that found the ring full are lost.
    void take(std::vector<Tick>& ticks);
    bool has_ticks() const { return ring_.has_records(); }  // that nobody has taken

   private:
    int cpu_;
    EventRing ring_;
};

class CpuClock {
   public:
    CpuClock() = default;

    // A clock that ticks on the CPUs of `rings`, on each after `first_ns` of CPU time there and then again and again until
    // set_period(). Not valid() where the kernel refuses (errno says why).
    enum class Ticks : std::uint8_t {
        kUser,    // in user mode only, as an unprivileged user may
        kAll,     // in the kernel, too
        kStacks,  // and tell where there
    };
    static CpuClock open(pid_t tid, std::uint64_t first_ns, Ticks ticks,
                         const std::vector<std::shared_ptr<TickRing>>& rings);

    bool valid() const { return !events_.empty(); }
    std::size_t cpus() const { return events_.size(); }
    bool has_ticks() const;  // that nobody has taken: of it, or of a clock that shares a ring with it

    // The period of the ticks on a CPU, which begins when the thread is there next. To be called on that CPU: another would be
    // interrupted for it.
    void set_period(int cpu, std::uint64_t period_ns);
    // How much CPU time can pass without a tick where the clock ticks, for a thread that was on at most so many CPUs meanwhile.
    std::uint64_t longest_ns(std::size_t cpus) const;

   private:
    struct Event {
        std::shared_ptr<TickRing> ring;
        Descriptor descriptor;
        std::uint64_t period_ns = 0;
    };
    std::vector<Event> events_;
};

}  // namespace weft
