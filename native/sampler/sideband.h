// What the kernel tells of the processes of the whole machine as it happens: forks, execs, ends, names, code that is mapped
// (perf_event_open(2), the "sideband" of an event that counts nothing).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sampler/perf_event.h"

namespace weft {

// One thing that has happened to a task.
struct Change {
    enum class Kind : std::uint8_t {
        kFork,    // `pid` and `tid` are new; a thread's `parent` is its own process
        kExec,    // the process is another program now
        kName,    // the thread is called `name` now
        kEnd,     // the thread has ended; with the last one the process
        kMapped,  // the process has mapped code
    };
    Kind kind = Kind::kFork;
    std::uint64_t at_ns = 0;  // of CLOCK_MONOTONIC
    pid_t pid = 0;
    pid_t tid = 0;
    pid_t parent = 0;
    std::string name;
};

class Sideband {
   public:
    Sideband();  // throws std::system_error where the kernel refuses

    // To wait for: they become readable when there is something to take, as a rule.
    std::vector<int> descriptors() const;

    // Fills in what has happened since the last call, oldest first. False: the kernel had no room for some of it.
    [[nodiscard]] bool take(std::vector<Change>& changes);

   private:
    std::vector<std::unique_ptr<EventRing>> rings_;  // one a CPU
};

}  // namespace weft
