// A thread's own CPU clock as the pacer of its samples: a perf event that becomes readable each time the thread has used
// another period of CPU time. Nothing is polled, and threads that do not run cost nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "sampler/proc.h"

namespace weft {

class CpuClock {
   public:
    CpuClock() = default;
    ~CpuClock();
    CpuClock(CpuClock&& other) noexcept;
    CpuClock& operator=(CpuClock&& other) noexcept;
    CpuClock(const CpuClock&) = delete;
    CpuClock& operator=(const CpuClock&) = delete;

    // Not valid() where the kernel refuses (errno says why). `user_only` asks for ticks in user mode alone, which is what
    // an unprivileged user may have; ticks that fall in the kernel are then not seen.
    static CpuClock open(pid_t tid, std::uint64_t period_ns, bool user_only);

    bool valid() const { return event_.valid(); }
    int descriptor() const { return event_.get(); }

    // Cheap while the thread is stopped; else the kernel interrupts the CPU that runs it.
    void set_period(std::uint64_t period_ns) const;

   private:
    Descriptor event_;
    void* ring_ = nullptr;
};

}  // namespace weft
