// The timeline of one thread: turns what is seen of it into runs whose weights add up to the time that has passed.
//
// The kernel's own accounts say how long the thread was on a CPU, how long it waited for one, and so how long it was
// blocked; samples only say in which stack. Each sample of a running thread stands for the CPU time (and the waiting for
// a CPU) since the last such sample; a blocked thread's stack stands for the blocked time until it moved, which was half-way
// between two looks, as far as is known, and for the waiting for a CPU with which it moved.
//
// Where the kernel tells of each switch (off_cpu.h), samples stand for the time on CPUs alone, and stays off the CPU come by
// themselves, with their time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "sampler/proc.h"
#include "sampler/runs.h"
#include "sampler/vocabulary.h"

namespace weft {

// A stack that a thread was seen blocked in, and has not left since.
struct Standing {
    std::uint32_t stack = 0;
    State state = State::kBlocked;
    std::uint64_t since_ns = 0;
    std::uint64_t seen_ns = 0;  // when it was last seen to stand still
};

class Timeline {
   public:
    Timeline(Mode mode, std::uint64_t period_ns, std::uint64_t now_ns, const SchedStat& now);
    // Of a thread whose switches are told.
    Timeline(std::uint64_t period_ns, std::uint64_t now_ns) : Timeline(Mode::kWall, period_ns, now_ns, {}) {
        switches_told_ = true;
    }

    // How much CPU time a sample of a running thread stands for.
    struct Claim {
        // A tick of the thread's own clock stands for a period, and a little more or less as long as the sum of all is
        // behind the CPU time or ahead of it: the clock has an event for each CPU that knows nothing of the others, so
        // that the time since the last tick tells little. Other samples stand for the time since the last one.
        bool own_tick = false;
        bool exact = true;  // the CPU time is; that of a thread on a CPU lags behind (SchedStat), and corrects nothing
        std::uint64_t most_ns = 0;
        std::uint64_t owed_ns = 0;  // that claims may be behind the CPU time: what is more has had no tick at all
        // Even at such a tick the CPU time lags behind by up to a scheduler tick. How far depends on what the thread runs, and must
        // not weigh: the mean of many ticks is what corrects.
        bool lags = false;
    };

    // The thread was seen at `now_ns` running in `stack`. CPU time that belongs to ticks that nobody sampled is returned.
    std::uint64_t add_running(std::uint64_t now_ns, const SchedStat& stat, std::uint32_t stack, const Claim& claim);

    // How long it has been blocked in stacks that nobody has seen.
    std::uint64_t unseen_blocked_ns(std::uint64_t now_ns, const SchedStat& stat) const {
        return switches_told_ ? 0 : blocked_total(now_ns, stat) - blocked_mark_;
    }

    // A part of a stay off the CPU, which ended at `at_ns`. Parts of the same stack and state are told as one
    // run once they come to half a period, so that a run stands for a sample.
    void add_away(std::uint64_t at_ns, std::uint64_t weight_ns, State state, std::uint32_t stack);
    void stand(const Standing& standing);
    void stand_no_more();

    // The thread was seen blocked in `stack`.
    void add_blocked(std::uint64_t now_ns, const SchedStat& stat, std::uint32_t stack, State state);

    // Mode gil: the thread held the GIL in `stack` for `weight_ns`.
    void add_holder(std::uint64_t now_ns, std::uint64_t weight_ns, std::uint32_t stack) {
        append(now_ns, weight_ns, State::kRunning, stack);
    }

    // Mode alloc: the thread has asked for so many bytes in `stack`, in so many calls, as far as a sample of them tells.
    void add_allocation(std::uint64_t now_ns, double bytes, double calls, std::uint32_t stack);

    // The thread has not run since it was last seen blocked.
    void still_standing(std::uint64_t now_ns) {
        if (standing_) {
            standing_->seen_ns = now_ns;
        }
    }

    // A tick that got no stack: its CPU time is not given to the next one. Returns that time.
    std::uint64_t skip_running(std::uint64_t now_ns, const SchedStat& stat, const Claim& claim);

    // Time in which weft itself held the thread: it counts as nothing.
    void held(std::uint64_t ns) { held_ns_ += ns; }

    // The thread has ended, or the recording. Returns the time that no sample stands for.
    std::uint64_t end(std::uint64_t now_ns);
    // The same, where switches are told; `ran_ns`: the time that it was on CPUs.
    std::uint64_t end_told(std::uint64_t now_ns, std::uint64_t ran_ns);

    const std::optional<Standing>& standing() const { return standing_; }
    // Whether standing() has begun or ended since the last call.
    bool take_standing_changed() { return std::exchange(standing_changed_, false); }

    // CPU time that samples stand for.
    std::uint64_t claimed_cpu_ns() const { return cpu_mark_; }
    // CPU time that no sample stands for yet; below 0 where samples are ahead of it.
    std::int64_t unclaimed_cpu_ns(const SchedStat& stat) const {
        return static_cast<std::int64_t>(stat.cpu_ns - cpu_mark_);
    }
    RunEncoder& runs() { return runs_; }

   private:
    struct Claimed {
        std::uint64_t ns = 0;
        std::uint64_t over_ns = 0;
    };
    Claimed claim_cpu(std::uint64_t now_ns, const SchedStat& stat, const Claim& claim);
    std::uint64_t blocked_total(std::uint64_t now_ns, const SchedStat& stat) const;
    std::uint64_t unclaimed_delay_ns(const SchedStat& stat) const {
        return std::max(stat.delay_ns, delay_mark_) - delay_mark_;
    }
    void end_standing(std::uint64_t now_ns, std::uint64_t weight_ns);
    void end_short_stays(std::uint64_t now_ns);
    void add_wait_for_cpu(std::uint64_t at_ns, const SchedStat& stat, std::uint32_t stack);
    void append(std::uint64_t at_ns, std::uint64_t weight_ns, State state, std::uint32_t stack);

    Mode mode_;
    std::uint64_t period_ns_;
    std::uint64_t begin_ns_;
    SchedStat begin_;
    SchedStat last_;
    // How much of each account runs already stand for.
    std::uint64_t cpu_mark_;
    std::int64_t mean_apart_ = 0;  // of the CPU time and what is claimed, in ns; see Claim::lags
    std::uint64_t delay_mark_;
    std::uint64_t blocked_mark_ = 0;
    std::uint64_t held_ns_ = 0;
    std::uint64_t at_ns_ = 0;  // of the last run
    bool claimed_ = false;
    std::optional<Standing> standing_;
    bool standing_changed_ = false;
    bool switches_told_ = false;
    // Mode alloc: what has not been told yet, of wholes.
    double bytes_over_ = 0;
    double calls_over_ = 0;
    std::map<std::pair<std::uint32_t, State>, std::uint64_t> short_stays_;  // by stack and state, in ns
    RunEncoder runs_;
};

}  // namespace weft
