// A thread's own CPU clock as the pacer of its samples: a perf event that ticks each time the thread has used another
// period of CPU time. Nothing is polled, and threads that do not run cost nothing.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include "memory/descriptor.h"

namespace weft {

class CpuClock {
   public:
    // What a tick does, and which ticks are given: those that fall into user mode, those in kernel mode, or all.
    enum class Ticks : std::uint8_t {
        kWake,        // makes the descriptor readable
        kWakeInUser,  // what an unprivileged user may have
        kWakeInKernel,
        kStopInUser,  // stops the thread, which must be traced: see kTickSignal
    };

    CpuClock() = default;
    ~CpuClock();
    CpuClock(CpuClock&& other) noexcept;
    CpuClock& operator=(CpuClock&& other) noexcept;
    CpuClock(const CpuClock&) = delete;
    CpuClock& operator=(const CpuClock&) = delete;

    // Not valid() where the kernel refuses (errno says why).
    static CpuClock open(pid_t tid, std::uint64_t period_ns, Ticks ticks);

    bool valid() const { return event_.valid(); }
    bool stops() const { return valid() && ticks_ == Ticks::kStopInUser; }
    int descriptor() const { return event_.get(); }

    // When the last tick was, in ns of the monotonic clock; nothing if there was none since the last call.
    std::optional<std::uint64_t> take_tick();

    // Cheap while the thread is stopped; else the kernel interrupts the CPU that runs it.
    void set_period(std::uint64_t period_ns) const;

   private:
    Descriptor event_;
    Ticks ticks_ = Ticks::kWake;
    void* ring_ = nullptr;
    std::uint64_t taken_ = 0;  // bytes of records
};

// The signal by which a tick stops a thread. It is made by the thread itself, in the tick's interrupt, and so is on its way
// before another instruction runs in user mode; the tracer sees it first and takes it away. Should the tracer die, it is
// one that the kernel throws away by default (signal(7)), so it must not be used where the program catches it or waits
// for it.
inline constexpr int kTickSignal = SIGURG;

}  // namespace weft
