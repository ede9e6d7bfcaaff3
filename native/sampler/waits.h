// What a blocked thread waits for, by the system call that it is in.
#pragma once

#include <cstdint>

#include "sampler/vocabulary.h"

namespace weft {

struct Wait {
    std::int64_t system_call = -1;  // its number; -1: none, as in a page fault
    std::uint64_t first_argument = 0;
    std::uint64_t second_argument = 0;
    bool uninterruptible = false;  // as the kernel has it wait for disks, and for pages that come from there
};

// One of the blocked states; of waiting for the GIL nothing is known here.
State state_of(const Wait& wait);

}  // namespace weft
