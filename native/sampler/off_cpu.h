// The time that a thread spends off the CPU, as the kernel tells it (bpf/switches.h): each stay has its own stack and its own time.
//
// A thread that leaves its CPU very often has the stack taken of a part of its stays, drawn by chance: one of `every`. The kernel adds
// up the time of all; that of the others is shared out among those that have a stack, in proportion to their own time and to how many
// each was drawn for. So the sum is exact, and each stack's part is what is to be expected.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "abi.h"
#include "memory/memory.h"
#include "python/loss.h"
#include "sampler/vocabulary.h"

namespace weft {

// Where a thread is, off the CPU.
struct Away {
    std::uint32_t stack = 0;
    State state = State::kRunnable;  // that it is blocked in; kRunnable: it could run on
    Loss loss = Loss::kNone;         // why there is no stack
    std::uint64_t seen_ns = 0;       // when it left; or when it was seen away
    bool was_read = false;           // by us, from outside: the kernel had not told
    Address gil_holder =
        0;  // of a wait for the GIL: pthread_self of the thread that held it when this one was seen; 0: not known
};

// A stay that is over.
struct Stay {
    Away away;
    std::uint64_t left_ns = 0;
    std::uint64_t woken_ns = 0;
    std::uint64_t back_ns = 0;
    std::uint32_t every = 1;

    std::uint64_t blocked_ns() const { return woken_ns - left_ns; }
    std::uint64_t ready_ns() const { return back_ns - woken_ns; }
};

class OffCpu {
   public:
    // A stay gets so much time: blocked, and ready.
    using Give = std::function<void(const Stay& stay, std::uint64_t blocked_ns, std::uint64_t ready_ns)>;

    void leave(const Away& away) { away_ = away; }
    const std::optional<Away>& away() const { return away_; }
    void is_not_there() { away_.reset(); }

    // The thread is back. What the kernel had no room for is `lost`; the first stay, if nobody knows where it was, `unseen_ns`.
    struct Missing {
        std::uint64_t lost = 0;
        std::uint64_t lost_ns = 0;
        std::uint64_t unseen_ns = 0;
    };
    Missing come_back(const weft_return& told, const Give& give);

    // Shares out what is left. Returns what there is no stay for, in ns, if this is the end.
    void share(const Give& give);
    std::uint64_t rest_ns() const { return blocked_ns_ + ready_ns_; }
    // Stays whose stack was not taken.
    std::uint64_t untold() const { return last_.untold; }

   private:
    std::optional<Away> away_;
    weft_times last_{};
    std::vector<Stay> waiting_;
    // That no stay has got yet.
    std::uint64_t blocked_ns_ = 0;
    std::uint64_t ready_ns_ = 0;
};

}  // namespace weft
