#include "sampler/timeline.h"

#include <algorithm>
#include <cmath>

namespace weft {

namespace {

constexpr std::int64_t kCatchUp = 16;  // ticks over which claims fall into step with the CPU time
// The same of a mean over 16 ticks. Simulated, with lags of 0 to 8 periods in one function and 0 to 3 in another: with kCatchUp
// alone the first gets 46 % where it should have half, so 49.96 %. Claims are 6.2 periods apart then (standard deviation), of a thread
// that ticks fall on by chance.
constexpr std::int64_t kMeanOf = 16;
constexpr std::int64_t kCatchUpOfMean = 64;

}  // namespace

Timeline::Timeline(Mode mode, std::uint64_t period_ns, std::uint64_t now_ns, const SchedStat& now)
    : mode_(mode),
      period_ns_(period_ns),
      begin_ns_(now_ns),
      begin_(now),
      last_(now),
      cpu_mark_(now.cpu_ns),
      delay_mark_(now.delay_ns) {}

std::uint64_t Timeline::blocked_total(std::uint64_t now_ns, const SchedStat& stat) const {
    const std::uint64_t busy = (stat.cpu_ns - begin_.cpu_ns) + (stat.delay_ns - begin_.delay_ns) + held_ns_;
    const std::uint64_t total = now_ns - begin_ns_;
    return std::max(blocked_mark_, total > busy ? total - busy : 0);
}

void Timeline::append(std::uint64_t at_ns, std::uint64_t weight_ns, State state, std::uint32_t stack) {
    at_ns_ = std::max(at_ns_, at_ns);
    const std::uint64_t ticks = std::max<std::uint64_t>(1, (weight_ns + period_ns_ / 2) / period_ns_);
    runs_.append(static_cast<std::int64_t>(at_ns_), static_cast<std::int64_t>(weight_ns),
                 static_cast<std::int64_t>(state == State::kRunning ? 1 : ticks), static_cast<std::uint64_t>(state),
                 stack);
}

void Timeline::add_allocation(std::uint64_t now_ns, double bytes, double calls, std::uint32_t stack) {
    at_ns_ = std::max(at_ns_, now_ns);
    bytes_over_ += bytes;
    calls_over_ += calls;
    const double whole_bytes = std::floor(bytes_over_);
    const double whole_calls = std::floor(calls_over_);
    bytes_over_ -= whole_bytes;
    calls_over_ -= whole_calls;
    runs_.append(static_cast<std::int64_t>(at_ns_), static_cast<std::int64_t>(whole_bytes),
                 static_cast<std::int64_t>(whole_calls), static_cast<std::uint64_t>(State::kRunning), stack);
}

void Timeline::end_standing(std::uint64_t now_ns, std::uint64_t weight_ns) {
    if (const std::optional<Standing> stood = std::exchange(standing_, std::nullopt)) {
        append(now_ns, weight_ns, stood->state, stood->stack);
        blocked_mark_ += weight_ns;
        standing_changed_ = true;
    }
}

Timeline::Claimed Timeline::claim_cpu(std::uint64_t now_ns, const SchedStat& stat, const Claim& claim) {
    if (claim.own_tick && claim.exact && !switches_told_ && !std::exchange(claimed_, true)) {
        // The account that we began with lagged behind if the thread was on a CPU; it has not used more than has passed.
        cpu_mark_ = std::max(cpu_mark_, stat.cpu_ns - std::min(now_ns - begin_ns_, stat.cpu_ns));
    }
    const std::int64_t unclaimed = unclaimed_cpu_ns(stat);
    const auto period = static_cast<std::int64_t>(period_ns_);
    const std::int64_t apart = unclaimed - period;
    mean_apart_ += (apart - mean_apart_) / kMeanOf;
    const std::int64_t catch_up = claim.lags ? mean_apart_ / kCatchUpOfMean : apart / kCatchUp;
    const std::int64_t correction = claim.exact ? catch_up : 0;
    const std::int64_t wanted = claim.own_tick ? period + correction : unclaimed;
    const std::int64_t claimed = std::clamp<std::int64_t>(wanted, 0, static_cast<std::int64_t>(claim.most_ns));
    const std::int64_t over = std::max<std::int64_t>(0, unclaimed - claimed - static_cast<std::int64_t>(claim.owed_ns));
    cpu_mark_ += static_cast<std::uint64_t>(claimed + over);
    return {static_cast<std::uint64_t>(claimed), static_cast<std::uint64_t>(over)};
}

std::uint64_t Timeline::add_running(std::uint64_t now_ns, const SchedStat& stat, std::uint32_t stack,
                                    const Claim& claim) {
    const Claimed claimed = claim_cpu(now_ns, stat, claim);
    std::uint64_t weight = claimed.ns;
    if (mode_ == Mode::kWall && !switches_told_) {
        if (standing_) {
            // It stood until it ran: all blocked time since is the old stack's.
            const Standing stood = *standing_;
            const std::uint64_t ran_from_ns = now_ns - std::min(weight, now_ns);
            const std::uint64_t waited = unclaimed_delay_ns(stat);
            end_standing(ran_from_ns - std::min(waited, ran_from_ns), blocked_total(now_ns, stat) - blocked_mark_);
            if (stat.switches == last_.switches + 1) {
                add_wait_for_cpu(ran_from_ns, stat, stood.stack);  // all of it was to come back from there
            }
        }
        weight += unclaimed_delay_ns(stat);
    }
    delay_mark_ += unclaimed_delay_ns(stat);
    last_ = stat;
    append(now_ns, weight, State::kRunning, stack);
    return claimed.over_ns;
}

// What it has waited for a CPU since it was seen to stand: to leave the stack that it stood in.
void Timeline::add_wait_for_cpu(std::uint64_t at_ns, const SchedStat& stat, std::uint32_t stack) {
    const std::uint64_t waited = std::max(stat.delay_ns, last_.delay_ns) - last_.delay_ns;
    add_away(at_ns, waited, State::kRunnable, stack);
    delay_mark_ += waited;
}

void Timeline::add_blocked(std::uint64_t now_ns, const SchedStat& stat, std::uint32_t stack, State state) {
    std::uint64_t rest = blocked_total(now_ns, stat) - blocked_mark_;
    if (standing_) {
        // It moved at any time since the old stack was last seen: half of that time is each stack's. All to one of them
        // would favour those that follow long stays, which are looked at seldom.
        const std::uint64_t stood = std::min(rest, standing_->seen_ns - standing_->since_ns);
        const std::uint64_t either = (rest - stood) / 2;
        const std::uint64_t until = standing_->seen_ns + either;
        const std::uint32_t left = standing_->stack;
        end_standing(until, stood + either);
        add_wait_for_cpu(until, stat, left);
        rest -= stood + either;
    }
    last_ = stat;
    const std::uint64_t since = std::max(at_ns_, now_ns - std::min(rest, now_ns));
    standing_ = Standing{stack, state, since, now_ns};
    standing_changed_ = true;
}

void Timeline::add_away(std::uint64_t at_ns, std::uint64_t weight_ns, State state, std::uint32_t stack) {
    if (weight_ns == 0) {
        return;
    }
    const auto sum = short_stays_.try_emplace({stack, state}, 0).first;
    sum->second += weight_ns;
    if (sum->second >= period_ns_ / 2) {
        append(at_ns, sum->second, state, stack);
        short_stays_.erase(sum);
    }
}

void Timeline::stand(const Standing& standing) {
    standing_ = standing;
    standing_changed_ = true;
}

void Timeline::stand_no_more() {
    if (std::exchange(standing_, std::nullopt)) {
        standing_changed_ = true;
    }
}

std::uint64_t Timeline::skip_running(std::uint64_t now_ns, const SchedStat& stat, const Claim& claim) {
    const Claimed skipped = claim_cpu(now_ns, stat, claim);
    last_ = stat;
    return skipped.ns + skipped.over_ns;
}

std::uint64_t Timeline::end(std::uint64_t now_ns) {
    std::uint64_t unseen = std::max(last_.cpu_ns, cpu_mark_) - cpu_mark_;
    if (mode_ != Mode::kWall) {
        return mode_ == Mode::kCpu ? unseen : 0;
    }
    std::uint64_t blocked = blocked_total(now_ns, last_) - blocked_mark_;
    if (standing_) {
        const std::uint64_t stood = std::min(blocked, standing_->seen_ns - standing_->since_ns);
        const std::uint64_t until = standing_->seen_ns;
        end_standing(until, stood);
        blocked -= stood;
    }
    end_short_stays(now_ns);
    return unseen + blocked;
}

void Timeline::end_short_stays(std::uint64_t now_ns) {
    for (const auto& [key, weight_ns] : std::exchange(short_stays_, {})) {
        append(now_ns, weight_ns, key.second, key.first);
    }
}

std::uint64_t Timeline::end_told(std::uint64_t now_ns, std::uint64_t ran_ns) {
    end_short_stays(now_ns);
    stand_no_more();
    return std::max(ran_ns, cpu_mark_) - cpu_mark_;
}

}  // namespace weft
