// What a sampled allocation stands for. One of n bytes is sampled with a probability of p = 1 - exp(-n / mean) (bpf/allocations.h), so
// each that is sampled stands for 1 / p of its kind, and the sums are right however large or small the allocations are.
#pragma once

#include <cmath>
#include <cstdint>

#include "abi.h"

namespace weft {

struct Allocations {
    double bytes = 0;
    double calls = 0;
};

inline Allocations stands_for(std::uint64_t asked_for) {
    const auto size = static_cast<double>(asked_for);
    const double calls = -1 / std::expm1(-size / WEFT_BYTES_A_SAMPLE);
    return {size * calls, calls};
}

}  // namespace weft
