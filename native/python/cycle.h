#pragma once

#include <cstddef>

#include "memory/memory.h"

namespace weft {

// Brent's search for a cycle in a chain of pointers: the tortoise jumps to the hare at each power of two.
class CycleSearch {
   public:
    // Whether the chain has come to `address`, which is not 0, before. It may run around up to three times until that is
    // seen.
    bool closes(Address address) {
        if (address == tortoise_) {
            return true;
        }
        if (++steps_ == leap_) {
            tortoise_ = address;
            leap_ *= 2;
        }
        return false;
    }

    std::size_t steps() const { return steps_; }

   private:
    Address tortoise_ = 0;
    std::size_t steps_ = 0;
    std::size_t leap_ = 1;
};

}  // namespace weft
