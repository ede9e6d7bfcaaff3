#include "sampler/gil_blame.h"

#include <algorithm>
#include <utility>

namespace weft {

std::map<std::uint32_t, std::uint64_t> Doings::within(std::uint64_t from_ns, std::uint64_t to_ns) const {
    std::map<std::uint32_t, std::uint64_t> found;
    for (const Doing& doing : doings_) {
        if (doing.from_ns == doing.to_ns) {
            if (doing.from_ns > from_ns && doing.from_ns <= to_ns) {
                found[doing.stack] += doing.weight_ns;
            }
        } else if (const std::uint64_t begin = std::max(from_ns, doing.from_ns), end = std::min(to_ns, doing.to_ns);
                   begin < end) {
            found[doing.stack] += end - begin;
        }
    }
    return found;
}

void GilBlame::add(std::uint32_t waiter, std::uint32_t waiter_stack, std::uint32_t holder, std::uint64_t weight_ns,
                   const std::map<std::uint32_t, std::uint64_t>& doings) {
    const Pair pair{waiter, waiter_stack, holder};
    std::uint64_t whole = 0;
    for (const auto& [stack, ns] : doings) {
        whole += ns;
    }
    if (whole == 0) {
        uncharged_[pair] += weight_ns;
        return;
    }
    if (const auto more = uncharged_.find(pair); more != uncharged_.end()) {
        weight_ns += more->second;
        uncharged_.erase(more);
    }
    std::uint64_t left = weight_ns;
    std::uint64_t to_come = whole;
    for (const auto& [stack, ns] : doings) {
        if (ns == 0) {
            continue;
        }
        const auto part = static_cast<std::uint64_t>(static_cast<double>(left) * static_cast<double>(ns) /
                                                     static_cast<double>(to_come));
        to_come -= ns;
        const std::uint64_t charged = to_come == 0 ? left : std::min(left, part);
        charged_[{pair, stack}] += charged;
        left -= charged;
    }
}

void GilBlame::end() {
    for (const auto& [pair, weight_ns] : std::exchange(uncharged_, {})) {
        charged_[{pair, 0}] += weight_ns;
    }
}

std::vector<GilWait> GilBlame::take() {
    std::vector<GilWait> rows;
    for (const auto& [key, weight_ns] : std::exchange(charged_, {})) {
        const auto& [pair, holder_stack] = key;
        rows.push_back({pair[0], pair[1], pair[2], holder_stack, weight_ns});
    }
    return rows;
}

}  // namespace weft
