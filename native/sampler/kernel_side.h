// Collector bpf, as the sampler sees it: the maps that it shares with the kernel's part (bpf/sample.h). Python has made them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "abi.h"
#include "memory/memory.h"
#include "sampler/kernel_clocks.h"
#include "sampler/kernel_ring.h"

namespace weft {

// Descriptors of maps; they are not ours.
struct KernelMaps {
    int ring = -1;
    std::size_t ring_bytes = 0;
    int processes = -1;
    int ignored = -1;
    int others = -1;
    int threads = -1;  // -1: switches are not told
    int caches = -1;   // an entry a CPU
    int states = -1;
    std::uint32_t cpus = 0;
    std::size_t cache_bytes = 0;           // of each entry
    std::vector<std::vector<int>> clocks;  // perf events, by their CPU
};

class KernelSide {
   public:
    explicit KernelSide(const KernelMaps& maps)
        : maps_(maps), ring_(maps.ring, maps.ring_bytes), clocks_(maps.clocks) {}

    // Samples of the process are taken from now on, by what is known of it now; its generation is given here. False: the kernel
    // has no room for it.
    bool tell(pid_t pid, weft_process& process);
    // All that it is not told of are sampled from now on, too.
    void sample_others(bool switches);
    // Children of processes that it is told of are sampled before it is told of them, if these say so.
    void follow_children();
    void ignore(pid_t pid);  // takes no samples of it
    void forget(pid_t pid);  // it is one of the others

    // The thread state of a thread in the main interpreter, which the kernel has not found, or has taken for another.
    void remember_state(pid_t tid, Address state);

    KernelRing& ring() { return ring_; }
    KernelClocks& clocks() { return clocks_; }

    // Whether the kernel tells of threads that leave their CPU, and come back.
    bool tells_switches() const { return maps_.threads >= 0; }
    // The time of the thread counts from now on, if the kernel does not know it yet. Its CPU time was `cpu_ns`, or somewhat more.
    void tell_thread(pid_t tid, std::uint64_t now_ns, std::uint64_t cpu_ns);
    void forget_thread(pid_t tid);
    // What the kernel knows of it; none: it has ended.
    std::optional<weft_thread> thread(pid_t tid) const;

   private:
    std::uint16_t next_generation();

    KernelMaps maps_;
    KernelRing ring_;
    KernelClocks clocks_;
    std::uint64_t others_since_ns_ = 0;                     // all processes are sampled since then; 0: they are not
    std::uint16_t generation_ = 0;                          // that was given last
    std::unordered_map<pid_t, std::uint16_t> generations_;  // of those that the kernel knows
};

}  // namespace weft
