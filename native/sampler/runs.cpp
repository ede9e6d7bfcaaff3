#include "sampler/runs.h"

#include <array>
#include <limits>
#include <utility>

namespace weft {
namespace {

constexpr std::int64_t kMicrosecond = 1000;
constexpr std::int64_t kMaxTime = std::numeric_limits<std::int64_t>::max() / kMicrosecond;  // in microseconds

std::int64_t floor_us(std::int64_t ns) { return ns / kMicrosecond - (ns % kMicrosecond < 0 ? 1 : 0); }

constexpr std::uint64_t zigzag(std::int64_t value) {
    return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

constexpr std::int64_t unzigzag(std::uint64_t value) {
    return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

void put(std::string& out, std::uint64_t value) {
    while (value >= 0x80) {
        out.push_back(static_cast<char>(value | 0x80));
        value >>= 7;
    }
    out.push_back(static_cast<char>(value));
}

// Takes varints from bytes that nobody vouches for.
class Reader {
   public:
    explicit Reader(std::string_view bytes) : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

    std::uint64_t take() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            if (next_ == end_) throw CorruptRuns("runs are cut short");
            const auto byte = static_cast<std::uint8_t>(*next_++);
            if (shift == 63 && byte > 1) break;
            value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
        throw CorruptRuns("a number in runs is too long");
    }

    void skip(std::size_t varints) {
        for (; varints > 0 && next_ != end_; ++next_) varints -= static_cast<std::uint8_t>(*next_) < 0x80 ? 1 : 0;
        if (varints > 0) throw CorruptRuns("runs are cut short");
    }

    [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }

   private:
    const char* next_;
    const char* end_;
};

// One reader a column, at its beginning. Each run takes five bytes or more, which bounds the count.
struct Columns {
    std::size_t count;
    std::array<Reader, 5> at;
};

Columns split(std::string_view bytes) {
    Reader reader(bytes);
    const std::uint64_t count = reader.take();
    if (count > reader.left() / 5) throw CorruptRuns("runs are fewer than they claim");
    std::array<Reader, 5> at{reader, reader, reader, reader, reader};
    for (auto& column : at) {
        column = reader;
        reader.skip(count);
    }
    if (reader.left() > 0) throw CorruptRuns("runs are followed by something else");
    return {static_cast<std::size_t>(count), at};
}

// Sums in C++ must not overflow; a file can make them.
template <typename T>
T sum(T a, T b) {
    T result;
    if (__builtin_add_overflow(a, b, &result)) throw CorruptRuns("a sum of runs is out of range");
    return result;
}

// In microseconds; `last` is that of the run before, and becomes this one's.
void take_weight(Reader& reader, std::int64_t& last) {
    last = sum(last, unzigzag(reader.take()));
    if (last < 0 || last > kMaxTime) throw CorruptRuns("a time in runs is out of range");
}

std::uint64_t take_state(Reader& reader) {
    const std::uint64_t state = reader.take();
    if (state >= kRunStates) throw CorruptRuns("runs hold an unknown state");
    return state;
}

std::int64_t take_ticks(Reader& reader) {
    const auto ticks = static_cast<std::int64_t>(reader.take());
    if (ticks <= 0) throw CorruptRuns("the ticks of a run are out of range");
    return ticks;
}

std::uint64_t take_stack(Reader& reader, std::int64_t& last) {
    last = sum(last, unzigzag(reader.take()));
    if (last < 0) throw CorruptRuns("runs name a stack below 0");
    return static_cast<std::uint64_t>(last);
}

}  // namespace

void RunEncoder::append(std::int64_t at_ns, std::int64_t weight_ns, std::int64_t ticks, std::uint64_t state,
                        std::uint64_t stack) {
    if (weight_ns < 0 || ticks <= 0 || state >= kRunStates) throw std::invalid_argument("no such run");
    const std::int64_t exact_ns = weight_ns + remainder_ns_;
    const std::int64_t weight_us = exact_ns / kMicrosecond;
    const std::int64_t at_us = floor_us(at_ns + kMicrosecond / 2);
    remainder_ns_ = exact_ns % kMicrosecond;
    if (count_ == 0) at_us_ = start_us_ = at_us - weight_us;
    put(gaps_, zigzag(at_us - at_us_ - weight_us));
    put(weights_, zigzag(weight_us - last_weight_us_));
    put(stacks_, zigzag(static_cast<std::int64_t>(stack) - last_stack_));
    put(ticks_, static_cast<std::uint64_t>(ticks));
    put(states_, state);
    at_us_ = at_us;
    last_weight_us_ = weight_us;
    last_stack_ = static_cast<std::int64_t>(stack);
    ++count_;
}

RunEncoder::Batch RunEncoder::take() {
    Batch batch{start_us_ * kMicrosecond, at_us_ * kMicrosecond, {}};
    put(batch.bytes, count_);
    for (auto* column : {&gaps_, &weights_, &stacks_, &ticks_, &states_}) {
        batch.bytes += *column;
        column->clear();
    }
    count_ = 0;
    last_weight_us_ = 0;
    last_stack_ = 0;
    return batch;
}

std::vector<Run> decode_runs(std::string_view bytes, std::int64_t start_ns) {
    auto [count, column] = split(bytes);
    std::vector<Run> runs(count);
    std::int64_t at_us = floor_us(start_ns);
    std::int64_t weight_us = 0;
    std::int64_t stack = 0;
    for (auto& run : runs) {
        const std::int64_t gap_us = unzigzag(column[0].take());
        take_weight(column[1], weight_us);
        at_us = sum(sum(at_us, gap_us), weight_us);
        if (at_us > kMaxTime || at_us < -kMaxTime) throw CorruptRuns("a time in runs is out of range");
        run.at_ns = at_us * kMicrosecond;
        run.weight_ns = weight_us * kMicrosecond;
        run.stack = take_stack(column[2], stack);
        run.ticks = take_ticks(column[3]);
        run.state = take_state(column[4]);
    }
    return runs;
}

RunFold::RunFold() : slots_(64) {}

void RunFold::add(std::string_view bytes) {
    auto [count, column] = split(bytes);
    std::int64_t weight_us = 0;
    std::int64_t stack = 0;
    for (std::size_t i = 0; i < count; ++i) {
        take_weight(column[1], weight_us);
        const std::int64_t ticks = take_ticks(column[3]);
        RunTotal& total = slot(take_stack(column[2], stack), take_state(column[4]));
        total.weight_ns = sum(total.weight_ns, weight_us * kMicrosecond);
        total.ticks = sum(total.ticks, ticks);
    }
}

std::vector<RunTotal> RunFold::totals() const {
    std::vector<RunTotal> totals;
    totals.reserve(used_);
    for (const auto& slot : slots_) {
        if (slot.ticks > 0) totals.push_back(slot);
    }
    return totals;
}

RunTotal& RunFold::slot(std::uint64_t stack, std::uint64_t state) {
    if (used_ * 2 >= slots_.size()) grow();
    const std::size_t mask = slots_.size() - 1;
    // Fibonacci hashing: ids are dense, and those that a file makes up cannot be worse than a slow report.
    std::size_t at = ((stack * kRunStates + state) * 0x9e3779b97f4a7c15ULL >> 20) & mask;
    for (;; at = (at + 1) & mask) {
        RunTotal& slot = slots_[at];
        if (slot.ticks == 0) {
            slot.stack = stack;
            slot.state = state;
            ++used_;
            return slot;
        }
        if (slot.stack == stack && slot.state == state) return slot;
    }
}

void RunFold::grow() {
    std::vector<RunTotal> old(slots_.size() * 2);
    old.swap(slots_);
    used_ = 0;
    for (const auto& total : old) {
        if (total.ticks > 0) slot(total.stack, total.state) = total;
    }
}

}  // namespace weft
