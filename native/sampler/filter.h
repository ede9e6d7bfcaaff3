// Which processes of the machine are recorded.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace weft {

struct ProcessFilter {
    std::string cgroup;  // as in /proc/PID/cgroup; those below it, too; empty: all
    std::optional<uid_t> user;
    std::string name;  // as in /proc/PID/comm; empty: any

    // Of a process that is there. One that is gone is let through if nothing is asked for.
    bool lets(pid_t pid) const;
};

}  // namespace weft
