// How long the target was held, stop by stop.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace weft {

class Holds {
   public:
    void add(std::uint64_t ns) {
        ++count_;
        total_ns_ += ns;
        max_ns_ = std::max(max_ns_, ns);
        ++buckets_[std::min<std::uint64_t>(ns / kBucketNs, buckets_.size() - 1)];
    }
    std::uint64_t count() const { return count_; }
    std::uint64_t total_ns() const { return total_ns_; }
    std::uint64_t max_ns() const { return max_ns_; }

    // What `percent` of the holds were no longer than, to the half microsecond; longer ones than a millisecond count as one.
    std::uint64_t percentile_ns(unsigned percent) const {
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < buckets_.size(); ++i) {
            seen += buckets_[i];
            if (seen * 100 >= count_ * percent) {
                return count_ == 0 ? 0 : i * kBucketNs + kBucketNs / 2;
            }
        }
        return 0;
    }

   private:
    static constexpr std::uint64_t kBucketNs = 500;
    std::uint64_t count_ = 0;
    std::uint64_t total_ns_ = 0;
    std::uint64_t max_ns_ = 0;
    std::array<std::uint64_t, 2001> buckets_{};
};

}  // namespace weft
