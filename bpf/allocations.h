// Which allocations are sampled: those in which a point of a Poisson process over all bytes falls. So an allocation of n bytes is
// sampled with a probability of 1 - exp(-n / WEFT_BYTES_A_SAMPLE), whatever came before it.
#pragma once

#include "sample.h"

enum {
    LOGARITHM_BITS = 20,  // of a logarithm, behind its point
    MEAN_LN_2 = 363409,   // WEFT_BYTES_A_SAMPLE * ln 2
};

// A random gap between two points, in bytes: -ln(u) times the mean, for a u from 0 to 1. Of -log2(u), the whole part is how often a
// coin shows heads in a row; what is left is a logarithm from 0 to 1, bit by bit: to square a number is to double its logarithm.
NOT_INLINE uint64_t drawn_gap(void) {
    uint64_t heads = 0;
    uint32_t coins = random_number();
    for (uint32_t i = 0; i < 62 && !(coins & 1); i++) {
        heads++;
        coins = i == 30 ? random_number() : coins >> 1;
    }
    uint64_t number = 1ull << 31 | random_number() >> 1;  // from 1 to 2, with 31 bits behind its point
    uint64_t logarithm = 0;
    for (uint32_t i = 0; i < LOGARITHM_BITS; i++) {
        number = number * number >> 31;
        const uint64_t bit = number >> 32;
        number >>= bit;
        logarithm = logarithm << 1 | bit;
    }
    const uint64_t minus_log2 = ((heads + 1) << LOGARITHM_BITS) - logarithm;
    return (minus_log2 * MEAN_LN_2 >> LOGARITHM_BITS) + 1;
}

// The program may be preempted anywhere, so the counter is only changed in one piece. Who comes between the one that has used it up
// and its new value is decided for itself: the points in its bytes depend on nothing that was before.
INLINE int is_sampled(uint64_t asked_for) {
    const uint32_t cpu = cpu_number();
    struct weft_allocations* here = map_lookup(&allocations, &cpu);
    if (!here) {
        return 0;
    }
    if (asked_for > WEFT_MOST_ASKED_FOR) {
        __sync_fetch_and_add(&here->refused, 1);
        return 0;
    }
    __sync_fetch_and_add(&here->calls, 1);
    __sync_fetch_and_add(&here->bytes, asked_for);
    const int64_t left = __sync_fetch_and_sub(&here->until_next, (int64_t)asked_for);
    if (left > (int64_t)asked_for) {
        return 0;
    }
    const int sampled = left > 0 || drawn_gap() <= asked_for;
    __sync_lock_test_and_set(&here->until_next, (int64_t)drawn_gap());
    return sampled;
}

INLINE uint64_t product(uint64_t count, uint64_t size) {
    return size && count > WEFT_MOST_ASKED_FOR / size ? WEFT_MOST_ASKED_FOR + 1 : count * size;
}

// Whether the allocator itself has called: what realloc or calloc ask malloc for was counted already.
INLINE int is_inner_call(const struct pt_regs* context, uint64_t cookie) {
    const uint64_t most = (1ull << WEFT_SPAN_BITS) - 1;
    const uint64_t before = cookie >> WEFT_BEFORE_AT & most;
    const uint64_t after = cookie >> WEFT_AFTER_AT & most;
    uint64_t caller = 0;
    read_user(&caller, sizeof caller, context->sp);
    return caller - (context->ip - before) < before + after;
}

// By the arguments of the function that the probe is at; 0: nothing, or it is counted elsewhere.
INLINE uint64_t bytes_asked_for(struct pt_regs* context) {
    const uint64_t cookie = probe_cookie(context);
    const uint64_t first = context->di;
    const uint64_t second = context->si;
    const uint64_t third = context->dx;
    if (is_inner_call(context, cookie)) {
        return 0;
    }
    const int forwards = (cookie & WEFT_FORWARDS) != 0;
    switch (cookie & (WEFT_FORWARDS - 1)) {
        case WEFT_ASKS_FIRST: return first;
        case WEFT_ASKS_PRODUCT: return product(first, second);
        case WEFT_ASKS_AGAIN: return forwards && !first ? 0 : second;
        case WEFT_ASKS_ALIGNED: return forwards && first <= WEFT_SMALL_ALIGNMENT ? 0 : second;
        case WEFT_ASKS_THIRD: return forwards && second <= WEFT_SMALL_ALIGNMENT ? 0 : third;
        default: return 0;
    }
}

INLINE int take(struct scratch* scratch) { return __sync_lock_test_and_set(&scratch->taken, 1) == 0; }
INLINE void let_go(struct scratch* scratch) { __sync_lock_test_and_set(&scratch->taken, 0); }
