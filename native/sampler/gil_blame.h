// Who makes whom wait for the GIL: each wait is charged to the thread that held it as the wait began, and to the stacks that this one
// showed meanwhile. Waits are short: a thread looks again after 5 ms (sys.setswitchinterval).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "sampler/batch.h"

namespace weft {

// What a thread has shown lately.
class Doings {
   public:
    // At a tick, which stands for `weight_ns`.
    void tick(std::uint64_t at_ns, std::uint64_t weight_ns, std::uint32_t stack) {
        add({at_ns, at_ns, weight_ns, stack});
    }
    // Off the CPU.
    void stay(std::uint64_t from_ns, std::uint64_t to_ns, std::uint32_t stack) {
        add({from_ns, to_ns, to_ns - from_ns, stack});
    }
    // By stack, how much of it falls into a time.
    std::map<std::uint32_t, std::uint64_t> within(std::uint64_t from_ns, std::uint64_t to_ns) const;

   private:
    static constexpr std::size_t kMost = 256;

    struct Doing {
        std::uint64_t from_ns = 0;
        std::uint64_t to_ns = 0;
        std::uint64_t weight_ns = 0;
        std::uint32_t stack = 0;
    };
    void add(const Doing& doing) {
        if (doings_.size() == kMost) {
            doings_.pop_front();
        }
        doings_.push_back(doing);
    }

    std::deque<Doing> doings_;
};

class GilBlame {
   public:
    // The wait of a thread in a stack, and what its holder did meanwhile. If nothing is known of that, the wait goes where the next
    // one of the same thread, in the same stack, for the same holder goes.
    void add(std::uint32_t waiter, std::uint32_t waiter_stack, std::uint32_t holder, std::uint64_t weight_ns,
             const std::map<std::uint32_t, std::uint64_t>& doings);
    // The recording ends: what still waits for a stack gets none.
    void end();
    // What has been added since the last call.
    std::vector<GilWait> take();

   private:
    using Pair = std::array<std::uint32_t, 3>;  // waiter, its stack, holder
    std::map<std::pair<Pair, std::uint32_t>, std::uint64_t> charged_;
    std::map<Pair, std::uint64_t> uncharged_;
};

}  // namespace weft
