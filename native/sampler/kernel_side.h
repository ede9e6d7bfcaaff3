// Collector bpf, as the sampler sees it: the maps that it shares with the kernel's part (bpf/sample.h). Python has made them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "abi.h"
#include "sampler/kernel_ring.h"

namespace weft {

// Between looks at the ring: 16 MB of it last for 80 ms at 20 kHz.
inline constexpr std::uint64_t kRingPauseNs = 10'000'000;

// Descriptors of maps; they are not ours.
struct KernelMaps {
    int ring = -1;
    std::size_t ring_bytes = 0;
    int processes = -1;
    int threads = -1;  // -1: switches are not told
    int caches = -1;   // an entry a CPU
    std::uint32_t cpus = 0;
    std::size_t cache_bytes = 0;  // of each entry
};

class KernelSide {
   public:
    explicit KernelSide(const KernelMaps& maps) : maps_(maps), ring_(maps.ring, maps.ring_bytes) {}

    // Samples of the process are taken from now on, by what is known of it now; its generation is given here. False: the kernel
    // has no room for it.
    bool tell(pid_t pid, weft_process& process);
    void forget(pid_t pid);

    // Whether the kernel tells of threads that leave their CPU, and come back.
    bool tells_switches() const { return maps_.threads >= 0; }
    // The time of the thread counts from now on, if the kernel does not know it yet.
    void tell_thread(pid_t tid, std::uint64_t now_ns);
    void forget_thread(pid_t tid);
    // What the kernel knows of it; none: it has ended.
    std::optional<weft_thread> thread(pid_t tid) const;

    // Calls `on_record` for each sample since the last call.
    void take(const std::function<void(std::span<const std::byte>)>& on_record) { ring_.take(on_record); }

   private:
    KernelMaps maps_;
    KernelRing ring_;
    std::uint16_t generation_ = 0;
};

}  // namespace weft
