// Runs: what the capture keeps of samples. A run is a thread that showed one stack in one state for a while. This is
// the codec of the blob that docs/capture.md tells, before its compression: the sampler writes it, reports read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The bytes are no runs: cut short, too long, or out of range. They come from a file, so this is not a bug of ours.
struct CorruptRuns : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Run {
    std::int64_t at_ns = 0;      // when it was last seen
    std::int64_t weight_ns = 0;  // the time that it stands for
    std::int64_t ticks = 0;      // the sampling ticks that it stands for
    std::uint64_t state = 0;     // weft.sample.State
    std::uint64_t stack = 0;     // stack.id in the capture

    bool operator==(const Run&) const = default;
};

inline constexpr std::uint64_t kRunStates = 7;  // states are below this

// Collects the runs of one thread, batch by batch. It outlives the batch: the part of a weight that is below a
// microsecond is carried into the thread's next run, so that sums stay exact.
class RunEncoder {
   public:
    // Throws std::invalid_argument for a negative weight, no tick, or an unknown state.
    void append(std::int64_t at_ns, std::int64_t weight_ns, std::int64_t ticks, std::uint64_t state,
                std::uint64_t stack);

    [[nodiscard]] std::size_t size() const { return count_; }  // runs since the last take()

    struct Batch {
        std::int64_t start_ns = 0;  // samples.start_ns and end_ns: when the first run began and the last one ended
        std::int64_t end_ns = 0;
        std::string bytes;
    };
    // The batch so far, which must not be empty; a new one begins.
    Batch take();

   private:
    std::size_t count_ = 0;
    std::int64_t start_us_ = 0;      // of the batch
    std::int64_t at_us_ = 0;         // of the last run
    std::int64_t remainder_ns_ = 0;  // of the weights so far, below a microsecond
    std::int64_t last_weight_us_ = 0;
    std::int64_t last_stack_ = 0;
    std::string gaps_, weights_, stacks_, ticks_, states_;  // the columns, encoded
};

// The runs of one batch; throws CorruptRuns.
std::vector<Run> decode_runs(std::string_view bytes, std::int64_t start_ns);

struct RunTotal {
    std::uint64_t stack = 0;
    std::uint64_t state = 0;
    std::int64_t ticks = 0;
    std::int64_t weight_ns = 0;
};

// Adds up batches: the weight and the ticks of each pair of stack and state.
class RunFold {
   public:
    RunFold();
    void add(std::string_view bytes);  // throws CorruptRuns; the totals are then of no use

    [[nodiscard]] std::vector<RunTotal> totals() const;  // in no order

   private:
    RunTotal& slot(std::uint64_t stack, std::uint64_t state);
    void grow();

    std::vector<RunTotal> slots_;  // open addressing; a slot whose ticks are 0 is free
    std::size_t used_ = 0;
};

}  // namespace weft
