// The readers: a thread of ours on each CPU, bound to it, that is woken there by the ticks of the targets' CPU clocks.
//
// The tick interrupts the target's thread, and its reader takes that CPU. While the reader reads, the thread waits for the
// CPU: it cannot move, though nobody has stopped it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "memory/descriptor.h"
#include "sampler/cpu_clock.h"
#include "sampler/proc.h"

namespace weft {

// A sleep of the calling reader, from now on, and its end.
class Wake {
   public:
    // `asleep`: the reader's account at this sleep, or at one before.
    Wake(const ThreadFiles& own, bool in_real_time, const SchedStat& asleep);

    // Whether it was this tick that woke the calling reader, which took the CPU at once and has had it ever since. (A reader
    // sleeps too when it waits for its turn, or for a page of the target. Then the target's thread goes on, and may tick.)
    bool by(const Tick& tick) const;

    // It has ended, now.
    void has_come() { awake_ns_ = monotonic_ns(); }

   private:
    bool has_waited(std::uint64_t least_ns) const;  // for its CPU, since `asleep`

    const ThreadFiles& own_;
    bool in_real_time_;
    std::uint64_t asleep_ns_;
    std::uint64_t awake_ns_ = 0;
    std::uint64_t switches_;
    SchedStat asleep_;
};

class Readers {
   public:
    // Called by a reader, on the ring's CPU, when ticks have come there. Whoever is called takes them out.
    using OnTicks = std::function<void(TickRing& ring, const Wake& wake)>;

    explicit Readers(OnTicks on_ticks);
    ~Readers() { stop(); }
    Readers(const Readers&) = delete;
    Readers& operator=(const Readers&) = delete;

    // A ring for a further clock on each CPU that the thread may run on; none if we may not run on all of these, or if
    // the kernel refuses (errno says why). Starts the readers that it needs. One thread at a time may call it.
    std::vector<std::shared_ptr<TickRing>> rings_for(pid_t tid);

    void stop();  // and waits for calls that are under way

    std::uint64_t cpu_ns() const;  // that all of them have used

   private:
    struct Reader {
        int cpu = 0;
        Descriptor epoll;
        std::vector<std::shared_ptr<TickRing>> rings;  // only added to; the thread knows them through epoll alone
        std::thread thread;
        int error = 0;             // errno: why it could not be bound to its CPU
        std::uint64_t cpu_ns = 0;  // when it has ended
    };

    Reader& reader_on(int cpu);
    void run(Reader& reader) const;

    OnTicks on_ticks_;
    Descriptor stop_;
    std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace weft
