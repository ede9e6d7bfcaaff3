// The words of sampling, as values. src/weft/sample.py has the same.
#pragma once

#include <array>
#include <cstdint>

#include "python/loss.h"

namespace weft {

enum class Mode : std::uint8_t {
    kWall,   // every thread, with its state
    kCpu,    // threads that use CPU time
    kGil,    // the thread that holds the GIL
    kAlloc,  // threads that ask libc for memory: weights are bytes
};

enum class State : std::uint8_t {
    kRunning = 0,   // on a CPU, or (unless that is told by itself) ready and waiting for one
    kGil = 1,       // waiting for the GIL
    kBlocked = 2,   // waiting for anything else
    kRunnable = 3,  // ready, and waiting for a CPU
    kIo = 4,        // waiting for files, sockets, pages
    kSleeping = 5,  // until a time
    kLock = 6,      // waiting for a lock, or a condition
};

struct LossTotal {
    std::uint64_t count = 0;
    std::uint64_t weight_ns = 0;  // the time that missing samples stood for; 0 where only the stack is incomplete
};

// Losses by their reason, since the start of the recording.
class Losses {
   public:
    void add(Loss loss, std::uint64_t count, std::uint64_t weight_ns) {
        LossTotal& total = totals_[static_cast<std::size_t>(loss)];
        total.count += count;
        total.weight_ns += weight_ns;
    }
    const std::array<LossTotal, kLossCount>& totals() const { return totals_; }

   private:
    std::array<LossTotal, kLossCount> totals_{};
};

}  // namespace weft
