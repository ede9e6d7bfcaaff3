#include "sampler/filter.h"

#include <unistd.h>

#include <algorithm>

#include "sampler/proc.h"

namespace weft {

namespace {

bool is_within(const std::string& cgroup, const std::string& wanted) {
    return cgroup.starts_with(wanted) &&
           (cgroup.size() == wanted.size() || wanted.ends_with('/') || cgroup[wanted.size()] == '/');
}

}  // namespace

bool ProcessFilter::lets(pid_t pid) const {
    if (pid == getpid()) {
        return false;  // its samples would be about its samples
    }
    if (user && read_user(pid) != user) {
        return false;
    }
    if (!name.empty() && read_thread_name(pid, pid) != name) {
        return false;
    }
    return cgroup.empty() ||
           std::ranges::any_of(read_cgroups(pid), [&](const auto& each) { return is_within(each, cgroup); });
}

}  // namespace weft
