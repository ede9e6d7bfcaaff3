// Looks that could not tell a stack: it is left to the next tick, again and again.
#pragma once

#include <cstdint>

namespace weft {

// What kept a look from telling a stack may last for some ms, however close ticks are: a reader does not get its CPU at once while
// others want it, and a thread may be blocked among the instructions that link frames, by a page fault at its first write to a new
// page. So it is left to the next tick for so many looks, and for so long.
class Retakes {
   public:
    // Whether to leave it to the next tick; false: what was seen has to do.
    bool again(std::uint64_t now_ns) {
        if (looks_ >= kLooks && now_ns - since_ns_ >= kTime) {
            return false;
        }
        if (looks_++ == 0) {
            since_ns_ = now_ns;
        }
        return true;
    }
    void end() { looks_ = 0; }

   private:
    static constexpr int kLooks = 5;
    static constexpr std::uint64_t kTime = 20'000'000;  // ns

    int looks_ = 0;  // in a row
    std::uint64_t since_ns_ = 0;
};

}  // namespace weft
