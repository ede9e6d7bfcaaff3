// Looks that could not tell a stack: it is left to the next tick, again and again.
#pragma once

#include <cstdint>

namespace weft {

// What kept a look from telling a stack (a thread among the instructions that link frames, a reader that did not get its CPU at
// once) lasts for as long as others want the CPU, some ms, however close ticks are: so it is left to the next tick for so many
// looks, and for so long.
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
