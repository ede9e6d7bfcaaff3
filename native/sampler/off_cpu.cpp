#include "sampler/off_cpu.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft {

namespace {

// Hands out a sum in parts; all of it once the parts are as much as the whole.
class Parts {
   public:
    Parts(std::uint64_t sum, double whole) : sum_(sum), whole_(whole) {}

    std::uint64_t take(double part) {
        if (whole_ <= 0) {
            return 0;
        }
        done_ += part;
        const double share = std::min(1.0, done_ / whole_);
        const auto until = std::min(sum_, static_cast<std::uint64_t>(std::llround(share * static_cast<double>(sum_))));
        return until - std::exchange(given_, until);
    }
    // What nobody could take.
    std::uint64_t rest() const { return sum_ - given_; }

   private:
    std::uint64_t sum_;
    double whole_;
    double done_ = 0;
    std::uint64_t given_ = 0;
};

}  // namespace

OffCpu::Missing OffCpu::come_back(const weft_return& told, const Give& give) {
    Missing missing;
    weft_times before = std::exchange(last_, told.times);
    if (before.began_ns != told.times.began_ns) {
        before = {};  // another account
    }
    missing.lost = last_.lost - before.lost;
    missing.lost_ns = last_.lost_ns - before.lost_ns;
    blocked_ns_ += last_.blocked_ns - before.blocked_ns;
    ready_ns_ += last_.ready_ns - before.ready_ns;
    const std::optional<Away> away = std::exchange(away_, std::nullopt);
    const Stay stay{away.value_or(Away{}), told.left_ns, told.woken_ns, told.time_ns, std::max(1U, told.every)};
    const bool all_told = last_.untold == before.untold;
    const bool has_own = stay.blocked_ns() <= blocked_ns_ && stay.ready_ns() <= ready_ns_;
    if (!away || away->seen_ns < told.left_ns || away->seen_ns > told.time_ns) {
        if (told.record == WEFT_IN && told.every == 0 && all_told && missing.lost == 0 && has_own) {
            missing.unseen_ns = stay.back_ns - stay.left_ns;
            blocked_ns_ -= stay.blocked_ns();
            ready_ns_ -= stay.ready_ns();
        }
        return missing;
    }
    // That one was read from outside is no matter of chance: it stands for itself.
    const bool own = stay.blocked_ns() == blocked_ns_ && stay.ready_ns() == ready_ns_ && waiting_.empty();
    if (has_own && (own || away->was_read)) {
        blocked_ns_ -= stay.blocked_ns();
        ready_ns_ -= stay.ready_ns();
        give(stay, stay.blocked_ns(), stay.ready_ns());
    } else {
        waiting_.push_back(stay);
    }
    return missing;
}

void OffCpu::share(const Give& give) {
    double blocked = 0;
    double ready = 0;
    for (const Stay& stay : waiting_) {
        blocked += static_cast<double>(stay.blocked_ns()) * stay.every;
        ready += static_cast<double>(stay.ready_ns()) * stay.every;
    }
    Parts blocked_parts(blocked_ns_, blocked);
    Parts ready_parts(ready_ns_, ready);
    for (const Stay& stay : waiting_) {
        const std::uint64_t of_blocked = blocked_parts.take(static_cast<double>(stay.blocked_ns()) * stay.every);
        const std::uint64_t of_ready = ready_parts.take(static_cast<double>(stay.ready_ns()) * stay.every);
        give(stay, of_blocked, of_ready);
    }
    blocked_ns_ = blocked_parts.rest();
    ready_ns_ = ready_parts.rest();
    waiting_.clear();
}

}  // namespace weft
